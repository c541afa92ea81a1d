package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/testnet/hosts"
)

// scene is one run, with two hosts, a writer, a tool and a reader.
type scene struct {
	scenario scenario
	tool     tool
	programs programs
	lab      *hosts.Lab
	dir      string // directory for files of this run
	carriers []process
	log      *os.File
	counter  *counter // nil means that what the kernel does is not counted
}

// process is a program of the tool on a host.
type process struct {
	host string
	cmd  *hosts.Cmd
}

const (
	warmUp  = 2 * time.Second
	atFirst = 20 * time.Second // time until every channel must be carried
)

// measure does one run. An error is in the result.
func measure(p programs, s scenario, t tool, turn int, counting *counter) result {
	r := result{Scenario: s.name, Link: s.link, Tool: t.name, Turn: turn}
	if missing := t.missing(); missing != nil {
		r.Err = "not installed: apt-get install " + strings.Join(missing, " ")
		return r
	}
	for _, g := range s.load {
		if t.largest > 0 && g.Size > t.largest {
			r.Err = fmt.Sprintf("cannot carry frames above %d bytes", t.largest)
			return r
		}
	}
	dir, err := os.MkdirTemp("", "achbridge-versus-run-")
	if err != nil {
		r.Err = err.Error()
		return r
	}
	defer os.RemoveAll(dir)
	lab, err := hosts.Start(hosts.Config{Hosts: []string{"robot", "pc"}, Link: s.link, Seed: uint64(turn + 1)})
	if err != nil {
		r.Err = err.Error()
		return r
	}
	defer lab.Close()
	c := &scene{scenario: s, tool: t, programs: p, lab: lab, dir: dir, counter: counting}
	if err := c.perform(&r); err != nil {
		text, _ := os.ReadFile(c.path("log"))
		r.Err = strings.TrimSpace(err.Error() + "\n" + lastLines(string(text), 5))
	}
	return r
}

func (c *scene) perform(r *result) (err error) {
	if c.log, err = os.Create(c.path("log")); err != nil {
		return err
	}
	defer c.log.Close()
	got, err := os.Create(c.path("frames"))
	if err != nil {
		return err
	}
	defer got.Close()

	write, read, err := c.ends()
	if err != nil {
		return err
	}
	writer, err := c.launch("robot", c.tool.program(), nil, write...)
	if err != nil {
		return err
	}
	time.Sleep(100 * time.Millisecond) // until the writer has created the channels
	if err := c.tool.start(c); err != nil {
		return err
	}
	reader, err := c.launch("pc", c.tool.program(), got, read...)
	if err != nil {
		return err
	}
	if c.tool.bare != "" { // the ends do the tool's work too
		c.carriers = append(c.carriers, process{"robot", writer}, process{"pc", reader})
	}
	if err := c.awaitMirrors(); err != nil {
		return err
	}
	time.Sleep(warmUp)

	var counts *kernelCount
	if c.counter != nil {
		if counts, err = c.countKernel(); err != nil {
			return err
		}
	}
	begin, used := monotonic(), c.cpuTime()
	if err := c.waitAndCut(); err != nil {
		return err
	}
	end, after := monotonic(), c.cpuTime()
	if counts != nil {
		if r.Kernel, err = counts.end(); err != nil {
			return err
		}
	}
	if err := reader.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := reader.Wait(); err != nil {
		return fmt.Errorf("reader: %w", err)
	}
	frames, err := readFrames(c.path("frames"))
	if err != nil {
		return err
	}
	r.Groups = summarize(c.scenario.load, frames, begin, end)
	for _, host := range hostNames {
		r.CPU = append(r.CPU, float64((after[host]-used[host]).Milliseconds())/(end-begin).Seconds())
	}
	return nil
}

// ends returns the arguments of the writer and of the reader.
func (c *scene) ends() (write, read []string, err error) {
	pc, err := c.lab.Addr("pc")
	write, read = []string{"write"}, []string{"read"}
	for _, g := range c.scenario.load {
		for _, name := range g.channels() {
			var from, to string
			if c.tool.bare == "" {
				from, to = channelFile(name), channelFile(c.tool.mirror(name))
			} else {
				port := 5600 + len(read)
				from, to = fmt.Sprintf("%s:%v:%d", c.tool.bare, pc, port), fmt.Sprintf("%s:0.0.0.0:%d", c.tool.bare, port)
			}
			write = append(write, from, fmt.Sprint(g.Rate), strconv.Itoa(g.Size))
			read = append(read, to)
		}
	}
	return write, read, err
}

// waitAndCut waits for the length of the measurement, and unplugs the cable as in the scenario.
func (c *scene) waitAndCut() error {
	if c.scenario.cut == 0 {
		time.Sleep(c.scenario.length)
		return nil
	}
	rest := max(0, c.scenario.length-c.scenario.cut)
	time.Sleep(rest / 2)
	if err := c.lab.Change("robot", "cut"); err != nil {
		return err
	}
	time.Sleep(c.scenario.cut)
	if err := c.lab.Change("robot", "up"); err != nil {
		return err
	}
	time.Sleep(rest / 2)
	return nil
}

// awaitMirrors waits until every channel exists on the PC.
func (c *scene) awaitMirrors() error {
	if c.tool.bare != "" {
		return nil
	}
	deadline := time.Now().Add(atFirst)
	for _, g := range c.scenario.load {
		for _, name := range g.channels() {
			for !c.exists("pc", channelFile(c.tool.mirror(name))) {
				if time.Now().After(deadline) {
					return fmt.Errorf("%s did not come through in %v", name, atFirst)
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
	}
	return nil
}

// exists reports whether a file exists on a host.
func (c *scene) exists(host, path string) bool {
	pid, err := c.lab.PID(host)
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join("/proc", strconv.Itoa(pid), "root", path))
	return err == nil
}

// launch starts a program on a host. It ends with the lab.
func (c *scene) launch(host, program string, stdout io.Writer, args ...string) (*hosts.Cmd, error) {
	cmd := c.lab.Command(host, c.programs.path(program), args...)
	cmd.Dir = "/"
	cmd.Stderr = c.log
	if stdout != nil {
		cmd.Stdout = stdout
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s on %s: %w", program, host, err)
	}
	return cmd, nil
}

// run starts a program of the tool. Its CPU time counts.
func (c *scene) run(host, program string, args ...string) error {
	cmd, err := c.launch(host, program, nil, args...)
	if err == nil {
		c.carriers = append(c.carriers, process{host, cmd})
	}
	return err
}

// output runs a program and returns its output.
func (c *scene) output(host, program string, args ...string) ([]byte, error) {
	cmd := c.lab.Command(host, c.programs.path(program), args...)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s on %s: %w\n%s", program, host, err, errOut.String())
	}
	return out, err
}

func (c *scene) path(name string) string { return filepath.Join(c.dir, name) }

// cpuTime returns the CPU time that the tool's processes and their children have used so
// far, by host.
func (c *scene) cpuTime() map[string]time.Duration {
	used := map[string]time.Duration{}
	for _, host := range hostNames {
		for _, pid := range c.pidsOf(host) {
			used[host] += cpuTimeOf(pid)
		}
	}
	return used
}

// cpuTimeOf returns the CPU time of a process, 0 if it has ended.
func cpuTimeOf(pid int) (used time.Duration) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const user, system, tick = 11, 12, 10 * time.Millisecond
	for _, i := range []int{user, system} {
		ticks, _ := strconv.Atoi(fields[i])
		used += time.Duration(ticks) * tick
	}
	return used
}

func channelFile(name string) string { return "/dev/shm/achshm-" + name }

// monotonic returns the time of CLOCK_MONOTONIC, which the frames' stamps use.
func monotonic() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(errors.Join(errors.New("no CLOCK_MONOTONIC"), err))
	}
	return time.Duration(t.Nano())
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
