package main

import (
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"time"
)

// This file has the benchmark of Ach's own papers: how long a time stamp takes from process
// to process on one host, with Ach and with the IPC of POSIX. The programs are in c/ipc.c.

// setup is one way to send stamps: the kind of IPC, the rate and the number of processes.
type setup struct {
	Means     string `json:"means"`
	Rate      int    `json:"hz"`
	Senders   int    `json:"senders"`
	Receivers int    `json:"receivers"`
}

// delays has the delays of one run of a setup, in microseconds.
type delays struct {
	setup
	Turn    int     `json:"turn"`
	Count   int     `json:"messages"`
	Typical float64 `json:"p50_us"`
	Mean    float64 `json:"mean_us"`
	P99     float64 `json:"p99_us"`
	Max     float64 `json:"max_us"`
}

var (
	ipcMeans = []string{"ach", "pipe", "local", "udp", "tcp", "mq"}
	ipcRates = []int{1000, 8000}
	several  = [][2]int{{1, 2}, {1, 4}, {2, 1}, {2, 2}} // pairs of senders and receivers
)

func setups() (list []setup) {
	for _, rate := range ipcRates {
		for _, means := range ipcMeans {
			list = append(list, setup{means, rate, 1, 1})
		}
		for _, n := range several {
			list = append(list, setup{"ach", rate, n[0], n[1]})
		}
	}
	return list
}

func runIPC(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("versus ipc", flag.ContinueOnError)
	flags.SetOutput(stderr)
	length := flags.Duration("for", 2*time.Second, "measure each course so long")
	repeat := flags.Int("repeat", 3, "run everything so often, in turn")
	asJSON := flags.Bool("json", false, "print the result of each run as JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *repeat < 1 || *length < 10*time.Millisecond || flags.NArg() > 0 {
		return fmt.Errorf("--repeat %d, --for %v, %q: want at least one run of 10ms, and nothing else", *repeat, *length, flags.Args())
	}
	p, err := build(func(p programs) [][]string { return [][]string{p.compile("ipc", "-lrt")} })
	if err != nil {
		return err
	}
	defer p.remove()
	var all []delays
	for turn := range *repeat {
		for _, c := range setups() {
			d, err := c.measure(p, *length)
			if err != nil {
				return err
			}
			d.Turn = turn
			all = append(all, d)
		}
	}
	if *asJSON {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(all)
	}
	writeDelays(stdout, all)
	writeClaims(stdout, all)
	return nil
}

func (c setup) measure(p programs, length time.Duration) (delays, error) {
	out, err := exec.Command(p.path("ipc"), c.Means, strconv.Itoa(c.Rate), strconv.Itoa(c.Senders), strconv.Itoa(c.Receivers), strconv.FormatInt(length.Milliseconds(), 10)).Output()
	if err != nil || len(out) < 8 {
		return delays{}, fmt.Errorf("%v: got %d bytes of delays: %w", c, len(out), err)
	}
	var list []float64
	sum := 0.0
	for word := range slices.Chunk(out, 8) {
		us := float64(binary.NativeEndian.Uint64(word)) / 1e3
		list = append(list, us)
		sum += us
	}
	slices.Sort(list)
	at := func(share float64) float64 { return list[int(share*float64(len(list)-1))] }
	return delays{setup: c, Count: len(list), Typical: at(0.5), Mean: sum / float64(len(list)), P99: at(0.99), Max: at(1)}, nil
}

// writeDelays prints the medians of all turns.
func writeDelays(w io.Writer, all []delays) {
	fmt.Fprintln(w, "| means | Hz | senders x receivers | typical | mean | 99 % | max |\n|---|---|---|---|---|---|---|")
	for _, c := range setups() {
		own := slices.DeleteFunc(slices.Clone(all), func(d delays) bool { return d.setup != c })
		cell := func(value func(delays) float64) float64 {
			var list []float64
			for _, d := range own {
				list = append(list, value(d))
			}
			return median(list)
		}
		fmt.Fprintf(w, "| %s | %d | %d x %d | %.1f | %.1f | %.0f | %.0f |\n", c.Means, c.Rate, c.Senders, c.Receivers,
			cell(typical), cell(func(d delays) float64 { return d.Mean }), cell(func(d delays) float64 { return d.P99 }), cell(func(d delays) float64 { return d.Max }))
	}
	fmt.Fprint(w, "\nDelays in microseconds; typical is the median of the messages, and all are medians of the turns.\n\n")
}

func typical(d delays) float64 { return d.Typical }
