// Command gendoc writes docs/config.md, made from the tables of settings, to
// standard output. `make docs` runs it.
package main

import (
	"fmt"
	"os"

	"github.com/sluicemq/sluice/cmd/sluice/config"
)

func main() {
	if _, err := os.Stdout.Write(config.Reference()); err != nil {
		fmt.Fprintln(os.Stderr, "gendoc:", err)
		os.Exit(1)
	}
}
