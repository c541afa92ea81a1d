// Lab runs a script with hosts that are emulated on this machine, joined by links with
// the given faults. See package testnet and `lab --help`.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"achbridge/testnet/hosts"
)

func main() {
	hosts.Main()
	guardMain()
	execMain()
	root := &cobra.Command{
		Use:   "lab",
		Short: "Run programs on emulated hosts and links",
		Long: `Lab makes hosts on this machine, each with its own network, processes,
/dev/shm, /run, and changes to /etc and /var/lib, joined by links with delay,
rate, loss and more. A script runs beside them and commands them with the same
program, found as lab on its PATH. It needs root. Nothing is left behind.`,
		Example: `  lab run --hosts robot,pc --link delay=10ms,rate=1mbit,queue=64KiB,loss=1% -- ./script.sh
  lab run --hosts robot,pc -- bash     # then, at its prompt:
  lab exec robot ip addr
  lab link robot cut`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; `%s --help` shows what is right", err, c.CommandPath())}
	})
	root.AddCommand(runCommand(), execCommand(), linkCommand(), addrCommand())
	err := root.Execute()
	if err == nil {
		return
	}
	var status statusError
	if errors.As(err, &status) {
		os.Exit(int(status))
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintln(os.Stderr, "lab: "+line)
	}
	var usage usageError
	if errors.As(err, &usage) || strings.HasPrefix(err.Error(), "unknown command") {
		os.Exit(2)
	}
	os.Exit(1)
}

// usageError is an error of the caller or of the environment, with exit status 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// statusError is the exit status of the program that lab ran.
type statusError int

func (s statusError) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// atLeast requires n arguments. Its error has their names.
func atLeast(n int, names string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < n {
			return usageError{fmt.Errorf("%s: %d arguments given; right is %s %s", c.CommandPath(), len(args), c.CommandPath(), names)}
		}
		return nil
	}
}
