package testnet_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"achbridge/testnet/hosts"
)

func TestMain(m *testing.M) {
	hosts.Main()
	if name := os.Getenv(programEnv); name != "" {
		os.Exit(runProgram(name, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// Real daemons on two hosts, and what happens to robots: whatever it is, the
// mirror follows again without anyone's help, and no reader ever sees an older
// frame after a newer.
func TestMirrorFollowsThroughEverything(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	publisher := w.publish("16", "64", "32")
	reopening, keeping := w.follow("reopening"), w.follow("keeping")
	keeping.awaitFrameAfter(time.Now())

	for _, event := range []struct {
		name   string
		happen func()
	}{
		{"the cable is cut for 3 s", func() {
			w.link("robot", "cut")
			time.Sleep(3 * time.Second)
			w.link("robot", "up")
		}},
		{"the robot's daemon is killed and started again", func() {
			w.robot.Process.Kill()
			w.robot.Wait()
			w.robot = w.daemon("robot")
		}},
		{"the publisher is killed and started again", func() {
			publisher.Process.Kill()
			publisher.Wait()
			publisher = w.publish("16", "64", "32")
		}},
		{"the channel is removed and created with another geometry", func() {
			publisher.Process.Kill()
			publisher.Wait()
			w.achbridge("robot", "channel", "rm", "imu")
			publisher = w.publish("8", "4096", "2000")
		}},
	} {
		start := time.Now()
		event.happen()
		over := time.Now()
		reopening.awaitFrameAfter(over)
		keeping.awaitFrameAfter(over)
		t.Logf("%s: took %v, followed again %v after", event.name, over.Sub(start).Round(time.Millisecond), time.Since(over).Round(time.Millisecond))
	}
	w.awaitNoticedReplacement(reopening, keeping)
}

// The file of the mirror was replaced, since the new frames do not fit: a
// reader that keeps its handle is told.
func (w *world) awaitNoticedReplacement(reopening, keeping *follower) {
	w.t.Helper()
	seen, told := reopening.firstOfSize(2000), keeping.firstError()
	if told.IsZero() || told.Sub(seen) > time.Second {
		w.t.Errorf("got the first new frame at %v and the error of the kept handle at %v, want it within 1s", seen, told)
	}
}

func TestChannelsOfTheRobotAreListedWithAndWithoutADaemon(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	w.publish("16", "64", "32")
	w.follow("reopening").awaitFrameAfter(time.Now())
	if got := w.achbridge("pc", "ls"); !strings.Contains(got, "robot/imu") || !strings.Contains(got, "robot.imu") {
		t.Errorf("with a daemon: got %s, want robot/imu and its mirror", got)
	}
	w.pc.Process.Signal(syscall.SIGTERM)
	w.pc.Wait()
	if got := w.achbridge("pc", "ls"); !strings.Contains(got, "robot/imu") {
		t.Errorf("without a daemon: got %s, want robot/imu", got)
	}
}

// world is a robot and a PC with a daemon each; the PC mirrors all the robot has.
type world struct {
	t         *testing.T
	lab       *hosts.Lab
	program   string
	robot, pc *hosts.Cmd
}

func startWorld(t *testing.T) *world {
	t.Helper()
	lab := hosts.StartTest(t, hosts.Config{Hosts: []string{"robot", "pc"}, Link: "delay=5ms"})
	w := &world{t: t, lab: lab, program: filepath.Join(t.TempDir(), "achbridge")}
	if out, err := exec.Command("go", "build", "-o", w.program, "achbridge/cmd/achbridge").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	// The hosts' /etc are their own: the key is made on one and brought to the other.
	const path = "/etc/achbridge/key"
	w.achbridge("robot", "key", "new")
	key, err := lab.Command("robot", "cat", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	bring := lab.Command("pc", "sh", "-c", "umask 077; mkdir -p /etc/achbridge; cat >"+path)
	bring.Stdin = bytes.NewReader(key)
	if out, err := bring.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.robot, w.pc = w.daemon("robot"), w.daemon("pc", "--mirror", "robot/*")
	return w
}

// daemon starts achbridge on a host. Its log is shown if the test fails.
func (w *world) daemon(host string, args ...string) *hosts.Cmd {
	w.t.Helper()
	log, err := os.CreateTemp(w.t.TempDir(), host)
	if err != nil {
		w.t.Fatal(err)
	}
	c := w.lab.Command(host, w.program, append([]string{"run"}, args...)...)
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		defer log.Close()
		if text, _ := os.ReadFile(log.Name()); w.t.Failed() {
			w.t.Logf("daemon of %s:\n%s", host, text)
		}
	})
	return c
}

// achbridge runs one verb on a host and returns what it printed.
func (w *world) achbridge(host string, args ...string) string {
	w.t.Helper()
	out, err := w.lab.Command(host, w.program, args...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("achbridge %q on %s: %v\n%s", args, host, err, out)
	}
	return string(out)
}

func (w *world) link(target, change string) {
	w.t.Helper()
	if err := w.lab.Change(target, change); err != nil {
		w.t.Fatal(err)
	}
}
