package testnet_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"achbridge/bridge/trust"
	"achbridge/testnet/await"
	"achbridge/testnet/hosts"
	"achbridge/testnet/need"
)

func TestMain(m *testing.M) {
	hosts.Main()
	if os.Getenv(asObserver) != "" {
		os.Exit(observe(os.Args[1:]))
	}
	// Tests of sites mostly wait, so run four in parallel, unless -parallel sets another
	// number.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	code := await.Main(m)
	if dir := builtIn.Load(); dir != nil {
		os.RemoveAll(*dir)
	}
	os.Exit(code)
}

// site is a set of emulated hosts with achbridge installed: the programs of this
// repository as real processes, with one network key on all hosts, and all files at
// their default places.
type site struct {
	t       *testing.T
	lab     *hosts.Lab
	bin     string
	network string // id of the network
}

// newSite starts hosts that are joined by links with a delay of 5 ms. They end with the test.
func newSite(t *testing.T, names ...string) *site {
	t.Helper()
	need.Processes(t)
	t.Parallel() // sites do not share anything
	return siteOf(t, "delay=5ms", names...)
}

// siteOf starts hosts that are joined by links with parameters in the form of testnet.ParseParams.
func siteOf(t *testing.T, link string, names ...string) *site {
	t.Helper()
	need.Processes(t)
	key := trust.NewKey()
	s := &site{t: t, lab: hosts.StartTest(t, hosts.Config{Hosts: names, Link: link}), network: key.Network()}
	var err error
	if s.bin, err = programs(); err != nil {
		t.Fatal(err)
	}
	for _, host := range names {
		// Hide the state of an achbridge that is installed on this machine.
		path := s.inside(host, "/etc/achbridge/key")
		err := errors.Join(os.RemoveAll(s.inside(host, "/var/lib/achbridge")), os.RemoveAll(path), os.MkdirAll(filepath.Dir(path), 0o755), key.Write(path))
		if err != nil {
			t.Fatalf("install on %s: %v", host, err)
		}
	}
	return s
}

// inside returns the path on this machine of a host's file.
func (s *site) inside(host, path string) string {
	s.t.Helper()
	pid, err := s.lab.PID(host)
	if err != nil {
		s.t.Fatal(err)
	}
	return filepath.Join("/proc", strconv.Itoa(pid), "root", path)
}

// addr returns the IPv4 address of a host.
func (s *site) addr(host string) string {
	s.t.Helper()
	addr, err := s.lab.Addr(host)
	if err != nil {
		s.t.Fatal(err)
	}
	return addr.String()
}

// achbridge runs an achbridge command on a host.
func (s *site) achbridge(host string, args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	var out, errOut bytes.Buffer
	cmd := s.lab.Command(host, filepath.Join(s.bin, "achbridge"), args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		s.t.Fatalf("achbridge %s on %s: %v", strings.Join(args, " "), host, err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// must runs an achbridge command on a host and returns its output. It fails the test if the command fails.
func (s *site) must(host string, args ...string) string {
	s.t.Helper()
	stdout, stderr, code := s.achbridge(host, args...)
	if code != 0 {
		s.t.Fatalf("achbridge %s on %s: exit code %d\n%s%s", strings.Join(args, " "), host, code, stdout, stderr)
	}
	return stdout
}

// shell runs a script on a host.
func (s *site) shell(host, script string, args ...string) string {
	s.t.Helper()
	out, err := s.lab.Command(host, "sh", append([]string{"-ec", script}, args...)...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s on %s: %v\n%s", script, host, err, out)
	}
	return string(out)
}

// run starts the daemon of a host. It does not wait for it.
func (s *site) run(host string, args ...string) *process {
	s.t.Helper()
	return s.start(host, "achbridge", append([]string{"run"}, args...)...)
}

// publish starts `achbridge publish` and waits until its channels exist.
func (s *site) publish(host string, channels ...string) *process {
	s.t.Helper()
	p := s.start(host, "achbridge", append([]string{"publish"}, channels...)...)
	for _, c := range channels {
		name, _, isChannel := strings.Cut(c, ":")
		if !isChannel {
			continue // a flag
		}
		p.awaitLog(`msg="publishing frames" channel=` + name)
	}
	return p
}

// start starts a program of this repository, or another one given by its path.
func (s *site) start(host, program string, args ...string) *process {
	s.t.Helper()
	return s.startWith(nil, host, program, args...)
}

// startWith starts a program with additional environment variables.
func (s *site) startWith(env []string, host, program string, args ...string) *process {
	s.t.Helper()
	if !filepath.IsAbs(program) {
		program = filepath.Join(s.bin, program)
	}
	p := &process{t: s.t, Cmd: s.lab.Command(host, program, args...)}
	p.Env = append(os.Environ(), env...)
	p.Stderr = &p.log
	p.began = time.Now()
	if err := p.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("%s on %s:\n%s", filepath.Base(program), host, p.log.String())
		}
	})
	return p
}

// startUnder starts one of the programs through a wrapper such as prlimit, setpriv or unshare, which
// executes it or waits for it.
func (s *site) startUnder(host string, wrapper []string, program string, args ...string) *process {
	s.t.Helper()
	if !filepath.IsAbs(program) {
		program = filepath.Join(s.bin, program)
	}
	line := append(append(wrapper[1:len(wrapper):len(wrapper)], program), args...)
	return s.start(host, need.Program(s.t, wrapper[0], "util-linux"), line...)
}

// link changes the parameters of a host's link.
func (s *site) link(host, change string) {
	s.t.Helper()
	if err := s.lab.Change(host, change); err != nil {
		s.t.Fatal(err)
	}
}

// process is a running program on a host.
type process struct {
	*hosts.Cmd
	t     *testing.T
	began time.Time
	log   await.Log
}

// kill ends the process with SIGKILL.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	_ = p.Wait() // returns an error, since the process was killed
}

// terminate ends the process with SIGTERM and returns how long that took.
func (p *process) terminate() time.Duration {
	p.t.Helper()
	begin := time.Now()
	p.signal(syscall.SIGTERM)
	p.waitForExit()
	return time.Since(begin)
}

// waitForExit waits for the end of a process after SIGTERM. The process must exit with status 0. On a
// busy machine a daemon may exceed its time for that.
func (p *process) waitForExit() {
	p.t.Helper()
	err := p.Wait()
	late := strings.Contains(p.log.String(), "leaving took too long") && !need.IsLong()
	if err != nil && !late {
		p.t.Errorf("%s: got %v after SIGTERM, want a peaceful end", filepath.Base(p.Path), err)
	}
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.Process.Signal(sig); err != nil {
		p.t.Fatalf("%s: %v: %v", filepath.Base(p.Path), sig, err)
	}
}

// awaitLog waits until the process logs text, and returns that line.
func (p *process) awaitLog(text string) (line string) {
	p.t.Helper()
	await.NoError(p.t, func() error {
		for line = range strings.Lines(p.log.String()) {
			if strings.Contains(line, text) {
				return nil
			}
		}
		return fmt.Errorf("%s: %q is not in its log", filepath.Base(p.Path), text)
	})
	return line
}

// checkPromise fails the test if something took longer than the documentation promises. It does so only
// in the long run, which has the machine to itself.
func checkPromise(t *testing.T, what string, took, most time.Duration) {
	t.Helper()
	if took > most && need.IsLong() {
		t.Errorf("%s took %v, want at most %v", what, took.Round(time.Millisecond), most)
	}
}
