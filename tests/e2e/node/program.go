package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

const (
	// variable names the program to test.
	variable = "SLUICE_BIN"
	// everywhere holds settings for all nodes, name=value with blanks between them:
	// what a test proves should be true with others as well. Those of the test go
	// before them.
	everywhere = "SLUICE_E2E_SET"
)

// Main runs the tests of a package: it sees to it that there is a program to
// test, and fails if the tests leave goroutines behind. options name those that
// may stay. It does not return.
func Main(m *testing.M, options ...goleak.Option) {
	remove, err := provide()
	if err != nil {
		fmt.Fprintln(os.Stderr, "no sluice program to test:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, append(options, goleak.Cleanup(func(code int) {
		remove()
		os.Exit(code)
	}))...)
}

// provide builds the program if none is given. remove takes it away again.
func provide() (remove func(), err error) {
	if given := os.Getenv(variable); given != "" {
		if _, err := os.Stat(given); err != nil {
			return nil, fmt.Errorf("%s: %w", variable, err)
		}
		return func() {}, nil
	}
	root, err := sourceTree()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sluice-e2e-")
	if err != nil {
		return nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) } // a temporary folder: nothing to do about it
	binary := filepath.Join(dir, "sluice")
	build := exec.Command("go", "build", "-o", binary, "./cmd/sluice")
	build.Dir = root
	if text, err := build.CombinedOutput(); err != nil {
		remove()
		return nil, fmt.Errorf("go build: %w\n%s", err, text)
	}
	return remove, os.Setenv(variable, binary)
}

// sourceTree finds the folder of Sluice's own module above the working folder.
func sourceTree() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if text, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil &&
			strings.HasPrefix(string(text), "module github.com/sluicemq/sluice\n") {
			return dir, nil
		}
		above := filepath.Dir(dir)
		if above == dir {
			return "", errors.New("the working folder is not within Sluice's source tree")
		}
		dir = above
	}
}

// Outcome is how a run of the program ended.
type Outcome struct {
	Code   int // exit code
	Stdout string
	Stderr string
}

// Run runs the program to its end, with the environment of the test and env
// besides. It is for commands that end by themselves; the test's deadline, and
// a minute, bound it.
func Run(t testing.TB, env []string, args ...string) Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	o, err := run(ctx, env, args...)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func run(ctx context.Context, env []string, args ...string) (Outcome, error) {
	var stdout, stderr strings.Builder
	cmd := exec.CommandContext(ctx, os.Getenv(variable), args...)
	cmd.Env = append(environment(), env...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.SysProcAttr = tied()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		return Outcome{}, fmt.Errorf("sluice %s: %w\n%s", strings.Join(args, " "), errors.Join(err, ctx.Err()), stderr.String())
	}
	return Outcome{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}, nil
}

// environment is that of the test without what would configure the program.
func environment() []string {
	var env []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "SLUICE_") {
			env = append(env, pair)
		}
	}
	return env
}
