// Versus compares achbridge with other tools. It carries the same channels between two
// emulated hosts with each tool, one after the other, and prints the ages of the newest
// frames as a Markdown table:
//
//	go run ./testnet/versus [--link TEXT]... [--load NAME:HZ:BYTES[*N],...] [--for 20s] [--repeat 3] [--tools LIST] [--syscalls] [--json] [SCENARIO...]
//	go run ./testnet/versus ipc [--for 2s] [--repeat 3] [--json]
//
// The second form runs the benchmark of Ach's own papers, without a network (see ipc.go).
//
// Writer and reader are the same C program in all runs (c/ends.c). The hosts share a clock,
// so that ages are exact. Run it as root inside the repository. It needs a C compiler.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"achbridge/testnet"
	"achbridge/testnet/hosts"
)

func main() {
	hosts.Main()
	err := run(os.Args[1:], os.Stdout, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "versus:", err)
		os.Exit(1)
	}
}

type options struct {
	scenarios []scenario
	tools     []tool
	repeat    int
	syscalls  bool // count system calls, context switches and packets, in place of ages
	json      bool
}

func run(args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == "ipc" {
		return runIPC(args[1:], stdout, stderr)
	}
	opts, err := parse(args, stderr)
	if err != nil {
		return err
	}
	var counting *counter
	if opts.syscalls {
		if counting, err = findCounter(); err != nil {
			return err
		}
	}
	programs, err := build(func(p programs) [][]string { return p.forTools(opts.tools) })
	if err != nil {
		return err
	}
	defer programs.remove()
	var all []result
	for _, s := range opts.scenarios {
		var results []result
		for turn := range opts.repeat {
			for _, t := range opts.tools { // alternate, so that other load of the machine affects all tools alike
				fmt.Fprintf(stderr, "%s: %s, %d of %d\n", s.name, t.name, turn+1, opts.repeat)
				r := measure(programs, s, t, turn, counting)
				if r.Err != "" {
					fmt.Fprintf(stderr, "%s: %s: %s\n", s.name, t.name, r.Err)
				}
				results = append(results, r)
			}
		}
		switch {
		case opts.json:
		case opts.syscalls:
			writeKernelTable(stdout, s, opts.tools, results)
		default:
			writeTable(stdout, s, opts.tools, results)
		}
		all = append(all, results...)
	}
	if opts.json {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(all)
	}
	return nil
}

// parse parses the command line. It also writes errors to stderr.
func parse(args []string, stderr io.Writer) (options, error) {
	own := scenario{name: "own", about: "as --link and --load say"}
	var links []string
	opts := options{tools: tools, repeat: 1}
	length := 20 * time.Second
	flags := flag.NewFlagSet("versus", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Func("link", "`TEXT` of the link between the hosts, as the lab's (default delay=200us); one run for each", func(text string) error {
		links = append(links, text)
		_, err := testnet.ParseParams(text)
		return err
	})
	flags.Func("load", "channels, as `NAME:HZ:BYTES[*N],...`", func(text string) (err error) {
		own.load, err = parseLoad(text)
		return err
	})
	flags.StringVar(&own.options, "mirror", "", "`OPTIONS` of achbridge's mirrors, such as budget=2s,priority=7")
	flags.DurationVar(&length, "for", length, "measure so long")
	flags.IntVar(&opts.repeat, "repeat", opts.repeat, "run everything so often, in turn")
	flags.Func("tools", "comma separated `LIST` of tools (default: all)", func(text string) (err error) {
		opts.tools, err = chosen(text)
		return err
	})
	flags.BoolVar(&opts.syscalls, "syscalls", false, "count system calls, context switches and packets for each frame, in place of ages")
	flags.BoolVar(&opts.json, "json", false, "print the result of each run as JSON")
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: versus [options] [SCENARIO...]\n       versus ipc [options]\n\noptions:")
		flags.PrintDefaults()
		fmt.Fprintln(stderr, "\nscenarios (default: the one that --link and --load describe):")
		for _, s := range scenarios {
			fmt.Fprintf(stderr, "  %-10s %s\n", s.name, s.about)
		}
		fmt.Fprintln(stderr, "\ntools:")
		for _, t := range tools {
			fmt.Fprintf(stderr, "  %-16s %s\n", t.name, t.about)
		}
	}
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	if opts.repeat < 1 || length <= 0 {
		return opts, fmt.Errorf("--repeat %d, --for %v: want at least one run of some length", opts.repeat, length)
	}
	for _, name := range flags.Args() {
		i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
		if i < 0 {
			return opts, fmt.Errorf("no scenario %q; there are %s", name, strings.Join(names(scenarios), ", "))
		}
		opts.scenarios = append(opts.scenarios, scenarios[i])
	}
	if len(opts.scenarios) == 0 {
		if own.load == nil {
			return opts, errors.New("nothing to carry: name a scenario, or give --load imu:1000:64")
		}
		if links == nil {
			links = []string{"delay=200us"}
		}
		for _, own.link = range links {
			opts.scenarios = append(opts.scenarios, own)
		}
	}
	for i := range opts.scenarios {
		opts.scenarios[i].length = length
	}
	return opts, nil
}
