package hosts

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ready starts c and returns its output once it has said that it is ready.
func ready(t *testing.T, c *Cmd) *bufio.Scanner {
	t.Helper()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Fatalf("got %q, want ready", lines.Text())
	}
	return lines
}

func output(t *testing.T, c *Cmd) string {
	t.Helper()
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %v", c.Args, err)
	}
	return strings.TrimSpace(string(out))
}

// roundTrips returns the times, sorted, of the pings that came back.
func roundTrips(t *testing.T, l *Lab, to string, count int, wait time.Duration) (times []time.Duration) {
	t.Helper()
	for line := range strings.SplitSeq(output(t, program(l, "pc", "ping", to, strconv.Itoa(count), wait.String())), "\n") {
		if ns, err := strconv.ParseInt(line, 10, 64); err == nil {
			times = append(times, time.Duration(ns))
		}
	}
	slices.Sort(times)
	return times
}

// Never early; how late is the machine's affair, so that one good round trip
// of many is enough.
func TestLinkHasTheDelayThatIsSet(t *testing.T) {
	l := StartTest(t, Config{Hosts: []string{"robot", "pc"}, Link: "delay=10ms"})
	ready(t, program(l, "robot", "echo"))
	check := func(to string, want time.Duration) {
		t.Helper()
		times := roundTrips(t, l, to, 20, time.Second)
		if len(times) == 0 || times[0] < want || times[0] > want+5*time.Millisecond {
			t.Errorf("%s: got round trips %v, want the best at %v", to, times, want)
		}
	}
	check("robot", 20*time.Millisecond)
	check("fd00:8076::1", 20*time.Millisecond)
	if err := l.Change("robot>pc", "delay=40ms"); err != nil {
		t.Fatal(err)
	}
	check("robot", 50*time.Millisecond)
}

func TestCutSilencesAHostUntilItIsUp(t *testing.T) {
	l := StartTest(t, Config{Hosts: []string{"robot", "pc"}})
	ready(t, program(l, "robot", "echo"))
	for _, c := range []struct {
		target, text string
		want         int
	}{{"", "up", 3}, {"robot", "cut", 0}, {"robot", "up", 3}, {"pc>robot", "cut", 0}, {"pc>robot", "up", 3}, {"", "loss=100%", 0}} {
		if err := l.Change(c.target, c.text); err != nil {
			t.Fatal(err)
		}
		wait := 2 * time.Second
		if c.want == 0 {
			wait = 50 * time.Millisecond
		}
		if times := roundTrips(t, l, "robot", 3, wait); len(times) != c.want {
			t.Errorf("%q %s: got %d answers, want %d", c.target, c.text, len(times), c.want)
		}
	}
	if err := l.Change("krang", "cut"); err == nil || !strings.Contains(err.Error(), "hosts are robot, pc") {
		t.Errorf("got %v, want the hosts there are", err)
	}
}

// What answers from another port than it was asked at is not heard.
func TestReboundPortIsReachedWhereItAppears(t *testing.T) {
	l := StartTest(t, Config{Hosts: []string{"robot", "pc"}})
	ready(t, program(l, "robot", "echo"))
	rebind := func(outside uint16) {
		t.Helper()
		if err := l.Rebind("robot", 7, outside); err != nil {
			t.Fatal(err)
		}
	}
	check := func(to string, want int, wait time.Duration) {
		t.Helper()
		if times := roundTrips(t, l, to, 3, wait); len(times) != want {
			t.Errorf("%s: got %d answers, want %d", to, len(times), want)
		}
	}
	for _, outside := range []string{"40007", "40008"} {
		port, _ := strconv.ParseUint(outside, 10, 16)
		rebind(uint16(port))
		check("robot:"+outside, 3, 2*time.Second)
		check("[fd00:8076::1]:"+outside, 3, 2*time.Second)
		check("robot:7", 0, 50*time.Millisecond)
	}
	check("robot:40007", 0, 50*time.Millisecond)
	rebind(0)
	check("robot:7", 3, 2*time.Second)
	if err := l.Rebind("krang", 7, 8); err == nil || !strings.Contains(err.Error(), "hosts are robot, pc") {
		t.Errorf("got %v, want the hosts there are", err)
	}
}

func TestLinkHasTheRateAndQueueThatAreSet(t *testing.T) {
	l := StartTest(t, Config{Hosts: []string{"robot", "pc"}, Link: "rate=1mbit,queue=10000"})
	var each time.Duration
	for range 5 { // a busy machine sees them late and in heaps
		lines := ready(t, program(l, "robot", "sink"))
		before := l.Settings()[1].Counts
		output(t, program(l, "pc", "flood", "robot", "100", "972"))
		var count, ns int64
		lines.Scan()
		if _, err := fmt.Sscan(lines.Text(), &count, &ns); err != nil {
			t.Fatal(err)
		}
		after := l.Settings()[1].Counts
		if got := after.Overflow - before.Overflow; got != uint64(100-count) || count < 11 {
			t.Fatalf("got %d through and %d overflowed, want 11 or more and the rest", count, got)
		}
		// Ten wait beside one in transmission; each takes 8 ms.
		if each = time.Duration(ns / (count - 1)); each > 7800*time.Microsecond && each < 8200*time.Microsecond {
			return
		}
	}
	t.Errorf("got one datagram per %v, want one per 8ms", each)
}

func TestMulticastReachesEveryHost(t *testing.T) {
	l := StartTest(t, Config{Hosts: []string{"robot", "pc", "station"}})
	a, b := ready(t, program(l, "pc", "listen")), ready(t, program(l, "station", "listen"))
	output(t, program(l, "robot", "say", "hello"))
	for _, lines := range []*bufio.Scanner{a, b} {
		if lines.Scan(); lines.Text() != "hello from 10.80.76.1" {
			t.Errorf("got %q, want hello from 10.80.76.1", lines.Text())
		}
	}
}

func TestMDNSFindsAServiceOfAnotherHost(t *testing.T) {
	l := StartTest(t, Config{Hosts: []string{"robot", "pc"}, Link: "delay=2ms"})
	ready(t, program(l, "robot", "register", "krang"))
	if got, want := output(t, program(l, "pc", "browse")), "krang [10.80.76.1] 8076"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHostsKeepTheirFilesAndNamesApart(t *testing.T) {
	before, _ := filepath.Glob("/etc/achbridge*")
	l := StartTest(t, Config{Hosts: []string{"robot", "pc"}})
	const script = `set -e
		for dir in /dev/shm /run /etc/achbridge /var/lib/achbridge; do
			test ! -e $dir/lab-test || { echo "$dir is shared"; exit 1; }
			mkdir -p $dir; echo $(hostname) >$dir/lab-test
		done
		hostname; cat /etc/hostname; ls /proc | grep -c '^[0-9]'; cat /proc/1/comm | wc -l`
	for _, host := range l.Hosts() {
		got := strings.Fields(output(t, l.Command(host, "sh", "-c", script)))
		// PID 1, the shell, ls and grep.
		if len(got) != 4 || got[0] != host || got[1] != host || got[2] > "4" {
			t.Errorf("%s: got %q, want its name twice and its own processes only", host, got)
		}
	}
	for _, path := range []string{"/dev/shm/lab-test", "/run/lab-test", "/etc/achbridge/lab-test", "/var/lib/achbridge/lab-test"} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %v outside, want none", path, err)
		}
	}
	if after, _ := filepath.Glob("/etc/achbridge*"); !slices.Equal(before, after) {
		t.Errorf("got %q in /etc, want %q as before", after, before)
	}
}

func TestCommandsReportStatusAndCanBeKilled(t *testing.T) {
	l := StartTest(t, Config{Hosts: []string{"robot"}})
	var exit *exec.ExitError
	if err := l.Command("robot", "sh", "-c", "exit 42").Run(); !errors.As(err, &exit) || exit.ExitCode() != 42 {
		t.Errorf("got %v, want status 42", err)
	}
	c := program(l, "robot", "echo")
	ready(t, c)
	c.Process.Kill()
	if err := c.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("got %v, want killed", err)
	}
	if err := l.Command("krang", "true").Run(); err == nil || !strings.Contains(err.Error(), `no host "krang"; hosts are robot`) {
		t.Errorf("got %v, want the hosts there are", err)
	}
	if dir := output(t, l.Command("robot", "pwd")); !strings.HasSuffix(dir, "testnet/hosts") {
		t.Errorf("got directory %s, want this one", dir)
	}
}

func TestCloseEndsWhatWasLeftRunning(t *testing.T) {
	l := StartTest(t, Config{Hosts: []string{"robot", "pc"}})
	c := l.Command("pc", "sh", "-c", "sleep 1000 & exec sleep 1000")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	pid := l.nodes[0].cmd.Process.Pid
	l.Close()
	if c.ProcessState == nil {
		t.Error("got a running process after Close")
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("got %v for the host's first process, want none", err)
	}
}

func TestBadConfigurationIsNamedAtOnce(t *testing.T) {
	_, err := Start(Config{Hosts: []string{"ro bot", "pc", "pc", "cut"}, Link: "rate=fast"})
	for _, want := range []string{`"ro bot" is not a host name`, `"pc" is named twice`, `"cut" has a meaning`, `rate: "fast"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
}
