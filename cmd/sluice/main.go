// Command sluice is the broker and its operator's tool: `sluice serve` runs the
// broker, `sluice log` looks into a data folder, other sub-commands talk to a
// running broker over the Kafka protocol.
//
// Exit codes: 0 done, 1 the work failed (one line on standard error says why),
// 2 damage was found (log verify), 3 there is no such group, topic or partition,
// 4 the group has members (groups), 80 the command line is wrong.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/alecthomas/kong"
)

// version is set by the linker.
var version = "unknown"

// commandLine is the whole command line. Help texts are what users read.
type commandLine struct {
	Serve   serveCommand   `cmd:"" help:"Run the broker."`
	Version versionCommand `cmd:"" help:"Print the version."`
	Log     logCommand     `cmd:"" help:"Look into the data folder of a broker (running or not)."`
	Groups  groupsCommand  `cmd:"" help:"Look at groups of consumers, set their offsets, delete them."`
	Txn     txnCommand     `cmd:"" help:"Look at transactions of producers, and abort them."`
}

func main() { os.Exit(run(os.Args[1:])) }

// run parses the arguments, runs the command and returns the exit code.
func run(args []string) int {
	var c commandLine
	parser, err := kong.New(&c, kong.Name("sluice"),
		kong.Description("A message broker for Kafka clients, with one durable log."), kong.UsageOnError())
	if err != nil {
		fmt.Fprintln(os.Stderr, "sluice:", err)
		return 1
	}
	ctx, err := parser.Parse(args)
	if err != nil {
		parser.FatalIfErrorf(err)
	}
	if err := ctx.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "sluice:", err)
		var coded exitError
		if errors.As(err, &coded) {
			return coded.code
		}
		return 1
	}
	return 0
}

// exitError is an error with an exit code of its own.
type exitError struct {
	error
	code int
}

func (e exitError) Unwrap() error { return e.error }

type versionCommand struct {
	Output string `enum:"text,json" default:"text" help:"How to print: ${enum}."`
}

func (v *versionCommand) Run() error {
	goVersion := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		goVersion = info.GoVersion
	}
	if v.Output == "json" {
		return printJSON(map[string]string{"version": version, "go": goVersion})
	}
	fmt.Printf("sluice %s (%s)\n", version, goVersion)
	return nil
}
