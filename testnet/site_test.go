package testnet_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"achbridge/testnet/hosts"
)

func TestMain(m *testing.M) {
	hosts.Main()
	if os.Getenv(asObserver) != "" {
		os.Exit(observe(os.Args[1:]))
	}
	if os.Getenv(asForger) != "" {
		os.Exit(sendForever(os.Args[1:]))
	}
	if what := os.Getenv(asCrowd); what != "" {
		os.Exit(pullAll(what))
	}
	// Sites mostly wait, for what befalls them and for what comes of it: some at a time,
	// unless -parallel says otherwise. Those of every day take a quarter of a core each.
	if err := flag.Set("test.parallel", long("4", "6")); err != nil {
		panic(err)
	}
	code := m.Run()
	if dir := builtIn.Load(); dir != nil {
		os.RemoveAll(*dir)
	}
	os.Exit(code)
}

// site is a set of emulated hosts with achbridge installed: the programs of
// this repository as real processes, one network key on all hosts, every file
// at its default place.
type site struct {
	t   *testing.T
	lab *hosts.Lab
	bin string
}

// newSite makes hosts joined by cables of 5 ms. They end with the test.
func newSite(t *testing.T, names ...string) *site {
	t.Helper()
	realHosts(t)
	t.Parallel() // each site is a world of its own
	s := &site{t: t, lab: hosts.StartTest(t, hosts.Config{Hosts: names, Link: "delay=5ms"})}
	var err error
	if s.bin, err = programs(); err != nil {
		t.Fatal(err)
	}
	key := s.newKey(names[0])
	for _, host := range names {
		s.install(host, key)
	}
	return s
}

// newKey makes a network key with the program itself, in a file all hosts see.
func (s *site) newKey(host string) string {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "key")
	s.must(host, "key", "new", "--key", path)
	return path
}

// install puts the key where the daemon of a host looks for it. What achbridge
// of the machine under the lab may have left there is hidden.
func (s *site) install(host, key string) {
	s.t.Helper()
	script := `rm -rf /var/lib/achbridge && install -D -m 600 "$0" /etc/achbridge/key`
	if out, err := s.lab.Command(host, "sh", "-c", script, key).CombinedOutput(); err != nil {
		s.t.Fatalf("install key on %s: %v\n%s", host, err, out)
	}
}

// verb runs a verb of achbridge on a host.
func (s *site) verb(host string, args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	var out, complaints bytes.Buffer
	cmd := s.lab.Command(host, filepath.Join(s.bin, "achbridge"), args...)
	cmd.Stdout, cmd.Stderr = &out, &complaints
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		s.t.Fatalf("achbridge %s on %s: %v", strings.Join(args, " "), host, err)
	}
	return out.String(), complaints.String(), cmd.ProcessState.ExitCode()
}

// must runs a verb that has to work, and returns what it printed.
func (s *site) must(host string, args ...string) string {
	s.t.Helper()
	stdout, stderr, code := s.verb(host, args...)
	if code != 0 {
		s.t.Fatalf("achbridge %s on %s: exit code %d\n%s%s", strings.Join(args, " "), host, code, stdout, stderr)
	}
	return stdout
}

// run starts the daemon of a host and does not wait for it.
func (s *site) run(host string, args ...string) *process {
	s.t.Helper()
	return s.start(host, "achbridge", append([]string{"run"}, args...)...)
}

// publish starts a publisher and waits until it has its channels.
func (s *site) publish(host string, channels ...string) *process {
	s.t.Helper()
	var args []string
	for _, c := range channels {
		args = append(args, "--channel", c)
	}
	p := s.start(host, "publisher", args...)
	for _, c := range channels {
		name, _, _ := strings.Cut(c, ":")
		p.awaitLog("msg=publishing channel="+name, 5*time.Second)
	}
	return p
}

func (s *site) start(host, program string, args ...string) *process {
	s.t.Helper()
	return s.startWith(nil, host, program, args...)
}

// startWith starts a program with more in its environment.
func (s *site) startWith(env []string, host, program string, args ...string) *process {
	s.t.Helper()
	p := &process{t: s.t, Cmd: s.lab.Command(host, filepath.Join(s.bin, program), args...)}
	p.Env = append(os.Environ(), env...)
	p.Stderr = &p.log
	p.began = time.Now()
	if err := p.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("%s on %s:\n%s", program, host, p.log.String())
		}
	})
	return p
}

// link changes the cable of a host.
func (s *site) link(host, change string) {
	s.t.Helper()
	if err := s.lab.Change(host, change); err != nil {
		s.t.Fatal(err)
	}
}

// process is a program that runs on a host until somebody ends it.
type process struct {
	*hosts.Cmd
	t     *testing.T
	began time.Time
	log   journal
}

// kill ends it with SIGKILL.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	_ = p.Wait() // killed is what it says
}

// leave ends it with SIGTERM and returns how long that took; it must leave in
// peace, unless the machine had no processor for it in time.
func (p *process) leave() time.Duration {
	p.t.Helper()
	begin := sinceNow()
	p.signal(syscall.SIGTERM)
	err := p.Wait()
	busy := stalled()-begin.stall > time.Second && strings.Contains(p.log.String(), "leaving took too long")
	if err != nil && !busy {
		p.t.Errorf("%s: got %v after SIGTERM, want a peaceful end", filepath.Base(p.Path), err)
	}
	return time.Since(begin.at)
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.Process.Signal(sig); err != nil {
		p.t.Fatalf("%s: %v: %v", filepath.Base(p.Path), sig, err)
	}
}

// awaitLog waits for text in what the process logs, and returns its line.
func (p *process) awaitLog(text string, limit time.Duration) (line string) {
	p.t.Helper()
	await(p.t, limit, func() error {
		for line = range strings.Lines(p.log.String()) {
			if strings.Contains(line, text) {
				return nil
			}
		}
		return fmt.Errorf("%s: %q is not in its log", filepath.Base(p.Path), text)
	})
	return line
}

// journal keeps what a process writes. Safe for concurrent use.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// await repeats a question until it has no error, and fails the test with the
// last one when the time is over, of which a busy machine gets more.
func await(t *testing.T, limit time.Duration, ask func() error) {
	t.Helper()
	for start := sinceNow(); ; time.Sleep(10 * time.Millisecond) {
		asked := time.Since(start.at)
		err := ask()
		if err == nil {
			return
		}
		if asked > start.allows(limit) {
			t.Fatalf("after %v: %v", asked.Round(time.Millisecond), err)
		}
	}
}
