package testnet_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"achbridge/localach"
	"achbridge/testnet/await"
)

// Faults of a host: its processes are killed or stopped, its shared memory is full, its
// channels are removed. See fault_host_*_test.go.

// startPeer starts the C program that uses a channel of a host with plain pthreads, as
// libach does.
func (s *site) startPeer(host, channel string, args ...string) *process {
	s.t.Helper()
	bin, err := achPeer()
	if err != nil {
		s.t.Fatal(err)
	}
	return s.start(host, bin, append([]string{"/dev/shm/achshm-" + channel}, args...)...)
}

var achPeer = sync.OnceValues(func() (string, error) {
	dir, err := programs()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "peer")
	const src = "../localach/testdata/peer/"
	out, err := exec.Command("cc", "-O2", "-pthread", "-o", bin, src+"channel.c", src+"main.c").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("cc: %w\n%s", err, out)
	}
	return bin, nil
})

// freeze stops a process and waits until all of its threads have stopped.
func (p *process) freeze() moment {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	await.NoError(p.t, func() error {
		if states := p.states(); strings.Trim(states, "T") != "" {
			return fmt.Errorf("%s: threads are in states %q, want all stopped", filepath.Base(p.Path), states)
		}
		return nil
	})
	return now()
}

// thaw continues a process and returns a moment just before that.
func (p *process) thaw() moment {
	p.t.Helper()
	at := now()
	p.signal(syscall.SIGCONT)
	return at
}

// states returns the state letter of each thread.
func (p *process) states() string {
	var states strings.Builder
	for _, task := range p.tasks() {
		if fields := afterName(filepath.Join(task, "stat")); len(fields) > 0 {
			states.WriteString(fields[0])
		}
	}
	return states.String()
}

func (p *process) tasks() []string {
	list, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", p.Process.Pid))
	return list
}

// afterName returns the fields of a stat file of /proc after the program's name, which may
// contain any bytes.
func afterName(path string) []string {
	text, _ := os.ReadFile(path)
	_, rest, _ := bytes.Cut(text, []byte(") "))
	return strings.Fields(string(rest))
}

// cpuTime returns the CPU time of a process.
func (p *process) cpuTime() time.Duration {
	p.t.Helper()
	fields := afterName(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
	if len(fields) < 13 {
		p.t.Fatalf("%s: it has ended", filepath.Base(p.Path))
	}
	const tick = 10 * time.Millisecond // USER_HZ
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * tick
}

// cpuLoad measures the share of one CPU that a process uses.
func (p *process) cpuLoad(during time.Duration) float64 {
	p.t.Helper()
	begin, before := time.Now(), p.cpuTime()
	time.Sleep(during) // the length of the measurement
	return (p.cpuTime() - before).Seconds() / time.Since(begin).Seconds()
}

// checkAlive fails the test if the process has ended.
func (p *process) checkAlive() {
	p.t.Helper()
	if err := p.Process.Signal(syscall.Signal(0)); err != nil || strings.Contains(p.states(), "Z") {
		p.t.Fatalf("%s: it has ended", filepath.Base(p.Path))
	}
}

// sleepRandomly sleeps for a random time up to limit.
func sleepRandomly(limit time.Duration) { time.Sleep(rand.N(limit)) }

// awaitOwner waits until a process holds the lock of a channel for a while.
func awaitOwner(t *testing.T, ch *localach.Channel) {
	t.Helper()
	owner, since := 0, time.Now()
	await.NoError(t, func() error {
		stat, err := ch.Stat()
		if err != nil {
			return err
		}
		if stat.LockOwner != owner || owner == 0 {
			owner, since = stat.LockOwner, time.Now()
		}
		if time.Since(since) < 50*time.Millisecond {
			return fmt.Errorf("lock of %s: owner is %d, want one that keeps it", ch.Name(), owner)
		}
		return nil
	})
}

// addPublisher adds a publisher of the robot with more mirrored channels to the fault test.
func (o *faultTest) addPublisher(publisher *process, channels ...string) {
	o.publishers = append(o.publishers, publisher)
	for host, before := range o.before {
		for _, name := range channels {
			if host != "robot" {
				name = "robot." + name
			}
			before.channels = append(before.channels, name)
		}
		slices.Sort(before.channels)
		o.before[host] = before
	}
}
