package main

import (
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"achbridge/testnet"
)

func linkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "link [HOST | 'A>B'] [cut | up | KEY=VALUE,…]…",
		Short: "Change links, or print what they are like",
		Long: `Link changes parameters while packets are under way. What is not named stays.
A HOST's parameters hold for what it sends, but cut and up for both directions.
'A>B' (quote it) is one direction: once changed it has its own queue beside A's.
Without either, all links are meant.

KEY=VALUE:` + linkKeys + `

Without a change it prints the present parameters, and in packets what was
sent, lost at random, dropped by a full queue, cut off, and above the mtu.`,
		Example: "  lab link loss=5%\n  lab link robot cut\n  lab link robot up\n  lab link 'robot>pc' delay=50ms rate=2mbit\n  lab link",
		RunE:    func(cmd *cobra.Command, args []string) error { return link(args) },
	}
}

func link(args []string) error {
	q := request{Command: "link"}
	if len(args) > 0 && !isChange(args[0]) {
		q.Target, args = args[0], args[1:]
		if len(args) == 0 {
			return usageError{fmt.Errorf("link %s: what to change is missing; right is cut, up or KEY=VALUE, and `lab link` alone prints", q.Target)}
		}
	}
	q.Change = strings.Join(args, ",")
	if q.Change != "" {
		// Check the syntax here too, so that errors do not depend on the lab.
		if _, err := (testnet.Params{}).With(q.Change); err != nil && !strings.HasPrefix(err.Error(), "burst: ") {
			return usageError{err}
		}
	}
	r, err := ask(q)
	if err != nil || q.Change != "" {
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "LINK\tSENT\tLOST\tOVERFLOW\tCUT\tTOO BIG\tPARAMETERS")
	for _, l := range r.Links {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%s\n", l.Target, l.Sent, l.Lost, l.Overflow, l.Cut, l.Big, l.Params)
	}
	return w.Flush()
}

// isChange reports whether arg is a change and not the name of a host.
func isChange(arg string) bool {
	return strings.Contains(arg, "=") || strings.EqualFold(arg, "cut") || strings.EqualFold(arg, "up")
}
