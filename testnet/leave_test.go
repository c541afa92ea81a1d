package testnet_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// A busy kernel is slow to close multicast sockets and inotify instances. The daemon must
// send its goodbyes before that, and then exits cleanly.
func TestDaemonExitsCleanlyWhileKernelIsSlow(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(*site, *process){
		"at rest": func(*site, *process) {},
		"as its networks change": func(s *site, robot *process) {
			s.changeEth0("robot", removeAddrs(func(ip net.IP) bool { return !isIPv4(ip) })) // makes the daemon register again
			await.NoError(t, robot.isClosing)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "at rest" {
				need.Long(t)
			}
			s := newSite(t, "robot", "pc", "other")
			s.publish("robot", "imu:10:64")
			robot, pc := s.run("robot"), s.run("pc", "--mirror", "robot/*")
			s.run("other")
			pc.awaitLog("link up")
			await.NoError(t, func() error {
				if list, code := s.ls("other", "--timeout", "1ms"); code != codeOK {
					return fmt.Errorf("got %v and exit code %d, want the robot's channel", list, code)
				}
				return nil
			})
			s.slowDownClose("robot", robot)
			meanwhile(s, robot)

			began := time.Now()
			robot.signal(syscall.SIGTERM)

			pc.awaitLog("the daemon is leaving")
			await.NoError(t, func() error { // ls has no link to the robot
				if list, code := s.ls("other", "--timeout", "1ms"); code != codeNothing {
					return fmt.Errorf("ls = %v and exit code %d, want nothing and %d", list, code, codeNothing)
				}
				return nil
			})
			checkPromise(t, "telling the others", time.Since(began), time.Second)
			robot.awaitLog("daemon stopped")
			checkPromise(t, "leaving", time.Since(began), 2*time.Second)
			robot.waitForExit() // as soon as strace releases its threads
			if list, code := s.ls("other", "--timeout", "1ms"); code != codeNothing {
				t.Errorf("ls after the daemon's end = %v and exit code %d, want nothing and %d", list, code, codeNothing)
			}
			if n := strings.Count(pc.log.String(), "link up"); n != 1 {
				t.Errorf("got %d links to the robot, want none with a daemon that has said goodbye", n)
			}
		})
	}
}

// slowDownClose makes the kernel take five seconds to close the multicast DNS sockets that a
// process has now, and its inotify instance.
func (s *site) slowDownClose(host string, p *process) {
	s.t.Helper()
	args := []string{"-f", "-qq", "-o", os.DevNull, "-e", "trace=close", "-e", "inject=close:delay_enter=5000000",
		"-P", "anon_inode:inotify", "-p", fmt.Sprint(p.Process.Pid)}
	for _, inode := range strings.Fields(s.shell(host, `awk '$2 ~ /:14E9$/ { print $10 }' /proc/net/udp /proc/net/udp6`)) {
		args = append(args, "-P", "socket:["+inode+"]")
	}
	slow := exec.Command(need.Program(s.t, "strace", "strace"), args...)
	if err := slow.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		slow.Process.Kill()
		_ = slow.Wait() // the error is that strace was killed
	})
	await.NoError(s.t, func() error {
		for _, task := range p.tasks() {
			if text, _ := os.ReadFile(filepath.Join(task, "status")); strings.Contains(string(text), "TracerPid:\t0\n") {
				return fmt.Errorf("%s is not traced yet", task)
			}
		}
		return nil
	})
}

// isClosing returns nil while a thread of the process is in close, else an error.
func (p *process) isClosing() error {
	for _, task := range p.tasks() {
		text, _ := os.ReadFile(filepath.Join(task, "syscall"))
		if number, _, _ := strings.Cut(string(text), " "); number == fmt.Sprint(syscall.SYS_CLOSE) {
			return nil
		}
	}
	return fmt.Errorf("%s closes nothing", filepath.Base(p.Path))
}
