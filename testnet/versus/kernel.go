package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// kernel counts what the kernel did for a tool on one host. Unlike times, these counts depend little on
// the speed of the machine and its other load.
type kernel struct {
	Syscalls float64 `json:"syscalls"`
	Switches float64 `json:"voluntary_switches"` // context switches because a thread began to wait
	Packets  float64 `json:"packets"`            // packets that the host sent, also those of other programs
	Bytes    float64 `json:"bytes"`              // bytes of these packets, with Ethernet headers
}

// per returns the counts divided by n.
func (k kernel) per(n float64) kernel {
	return kernel{k.Syscalls / n, k.Switches / n, k.Packets / n, k.Bytes / n}
}

// counter is a program that counts the system calls of other processes.
type counter struct {
	program string
	args    []string                          // arguments before those that name the processes
	count   func(out string) (float64, error) // reads the program's output
}

// counters has the counters in order of preference: perf hardly slows a process down, strace stops it at each system call.
var counters = []counter{
	{"perf", []string{"stat", "-x,", "-e", "raw_syscalls:sys_enter"}, perfCount},
	{"strace", []string{"-f", "-c", "-U", "calls"}, straceCount},
}

// findCounter returns the first of counters that works on this machine.
func findCounter() (*counter, error) {
	for _, c := range counters {
		out, err := exec.Command(c.program, append(c.args, "true")...).CombinedOutput()
		if err != nil {
			continue
		}
		if _, err := c.count(string(out)); err == nil {
			return &c, nil
		}
	}
	return nil, errors.New("--syscalls needs perf or strace, and root: apt-get install linux-perf, or strace; then run versus with sudo")
}

// syscallCount counts the system calls of processes on one host.
type syscallCount struct {
	*counter
	cmd *exec.Cmd
	out bytes.Buffer
}

// begin begins to count the system calls of processes and of the threads that they start.
func (c *counter) begin(pids []int) (*syscallCount, error) {
	list := strings.Trim(strings.ReplaceAll(fmt.Sprint(pids), " ", ","), "[]")
	s := &syscallCount{counter: c, cmd: exec.Command(c.program, slices.Concat(c.args, []string{"-p", list})...)}
	s.cmd.Stderr = &s.out
	return s, s.cmd.Start()
}

// end ends the count and returns it.
func (s *syscallCount) end() (float64, error) {
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
		return 0, err
	}
	s.cmd.Wait() // returns an error, since the signal ended the program
	n, err := s.count(s.out.String())
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %s", s.program, err, lastLines(s.out.String(), 3))
	}
	return n, nil
}

// perfCount returns the count in the output of perf stat -x, for one event.
func perfCount(out string) (float64, error) {
	for line := range strings.Lines(out) {
		if count, rest, ok := strings.Cut(line, ","); ok && strings.Contains(rest, "raw_syscalls") {
			return strconv.ParseFloat(count, 64)
		}
	}
	return 0, errors.New("no count of raw_syscalls:sys_enter")
}

// straceCount returns the sum in the output of strace -c -U calls.
func straceCount(out string) (float64, error) {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	fields := strings.Fields(lines[len(lines)-1])
	if len(fields) < 1 || !strings.Contains(out, "calls") {
		return 0, errors.New("no sum of calls")
	}
	return strconv.ParseFloat(fields[0], 64)
}

// pidsOf returns the tool's processes on a host with their descendants.
func (c *scene) pidsOf(host string) (pids []int) {
	for _, p := range c.carriers {
		if p.host == host {
			pids = append(pids, familyOf(p.cmd.Process.Pid)...)
		}
	}
	return pids
}

// familyOf returns a process and all of its descendants.
func familyOf(pid int) []int {
	pids := []int{pid}
	lists, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "children"))
	for _, list := range lists {
		children, _ := os.ReadFile(list) // fails if the thread has ended
		for _, child := range strings.Fields(string(children)) {
			if id, err := strconv.Atoi(child); err == nil {
				pids = append(pids, familyOf(id)...)
			}
		}
	}
	return pids
}

// switches returns the voluntary context switches so far of all threads of processes. A thread that has ended no longer counts.
func switches(pids []int) (sum float64) {
	for _, pid := range pids {
		files, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "status"))
		for _, file := range files {
			text, _ := os.ReadFile(file)
			_, rest, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
			line, _, _ := strings.Cut(rest, "\n")
			n, _ := strconv.ParseFloat(strings.TrimSpace(line), 64)
			sum += n
		}
	}
	return sum
}

// sent returns the packets and bytes that a host has sent so far.
func (c *scene) sent(host string) (packets, size float64, err error) {
	pid, err := c.lab.PID(host)
	if err != nil {
		return 0, 0, err
	}
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "net", "dev"))
	if err != nil {
		return 0, 0, err
	}
	return sentOf(string(text))
}

// sentOf returns the packets and bytes sent by eth0 in the text of /proc/net/dev.
func sentOf(text string) (packets, size float64, err error) {
	_, rest, ok := strings.Cut(text, "eth0:")
	fields := strings.Fields(rest)
	const bytesSent, packetsSent = 8, 9
	if !ok || len(fields) <= packetsSent {
		return 0, 0, errors.New("/proc/net/dev has no eth0")
	}
	size, sizeErr := strconv.ParseFloat(fields[bytesSent], 64)
	packets, err = strconv.ParseFloat(fields[packetsSent], 64)
	return packets, size, errors.Join(err, sizeErr)
}

// hostNames are the hosts of a run: the writers' and the readers'.
var hostNames = []string{"robot", "pc"}

// kernelCount counts system calls, context switches and packets on both hosts while it runs.
type kernelCount struct {
	scene    *scene
	before   []kernel
	syscalls []*syscallCount
}

// countKernel begins a kernelCount.
func (c *scene) countKernel() (*kernelCount, error) {
	k := &kernelCount{scene: c}
	for _, host := range hostNames {
		s, err := c.counter.begin(c.pidsOf(host))
		if err != nil {
			return nil, err
		}
		k.syscalls = append(k.syscalls, s)
	}
	for _, host := range hostNames {
		now, err := c.kernelNow(host)
		if err != nil {
			return nil, err
		}
		k.before = append(k.before, now)
	}
	return k, nil
}

// kernelNow returns the counts of a host since it started, without system calls.
func (c *scene) kernelNow(host string) (k kernel, err error) {
	k.Switches = switches(c.pidsOf(host))
	k.Packets, k.Bytes, err = c.sent(host)
	return k, err
}

// end stops the counters and returns the counts of both hosts since countKernel.
func (k *kernelCount) end() (list []kernel, err error) {
	for i, host := range hostNames {
		now, err := k.scene.kernelNow(host)
		if err != nil {
			return nil, err
		}
		list = append(list, kernel{Switches: now.Switches - k.before[i].Switches, Packets: now.Packets - k.before[i].Packets, Bytes: now.Bytes - k.before[i].Bytes})
	}
	for i := range list {
		if list[i].Syscalls, err = k.syscalls[i].end(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// mostLost is the largest share of lost frames with which a run counts. A lost frame takes less work, so it would make a tool look
// better.
const mostLost = 0.001

// writeKernelTable prints a scenario's counts for each frame as a Markdown table. They are medians of the runs.
func writeKernelTable(w io.Writer, s scenario, tools []tool, results []result) {
	fmt.Fprintf(w, "### %s: %s\n\nLink `%s`, %v. For each frame, robot + PC:\n\n", s.name, s.about, s.link, s.length)
	fmt.Fprintf(w, "| | system calls | voluntary switches | packets sent | bytes sent | runs |\n|---|---|---|---|---|---|\n")
	for _, t := range tools {
		fmt.Fprintf(w, "| %s | %s |\n", t.name, strings.Join(kernelRow(t.name, results), " | "))
	}
	fmt.Fprintf(w, "\nRuns that lost more than %.1f %% of the frames do not count.\n\n", 100*mostLost)
}

// kernelRow returns the cells of a tool's row.
func kernelRow(tool string, results []result) []string {
	var runs [][]kernel
	of := 0
	for _, r := range results {
		if r.Tool != tool || r.Err != "" {
			continue
		}
		of++
		frames, lost := 0, 0.0
		for _, g := range r.Groups {
			frames += g.Frames
			lost = max(lost, g.Lost)
		}
		if lost <= mostLost && frames > 0 {
			runs = append(runs, []kernel{r.Kernel[0].per(float64(frames)), r.Kernel[1].per(float64(frames))})
		}
	}
	switch {
	case of == 0:
		return []string{reason(tool, results), "", "", "", ""}
	case len(runs) == 0:
		return []string{"lost too many frames", "", "", "", fmt.Sprintf("0 of %d", of)}
	}
	cell := func(format string, value func(kernel) float64) string {
		var hosts [2][]float64
		for _, r := range runs {
			hosts[0], hosts[1] = append(hosts[0], value(r[0])), append(hosts[1], value(r[1]))
		}
		return fmt.Sprintf(format+" + "+format, median(hosts[0]), median(hosts[1]))
	}
	return []string{
		cell("%.1f", func(k kernel) float64 { return k.Syscalls }),
		cell("%.1f", func(k kernel) float64 { return k.Switches }),
		cell("%.2f", func(k kernel) float64 { return k.Packets }),
		cell("%.0f", func(k kernel) float64 { return k.Bytes }),
		fmt.Sprintf("%d of %d", len(runs), of),
	}
}
