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

// A kernel that is busy, with networks or with anything at all, is slow to close what
// is a member of a multicast group, and inotify. The goodbyes do not wait for that, and
// who has said them has left in peace.
func TestDaemonExitsCleanlyWhileKernelIsSlow(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(*site, *process){
		"at rest": func(*site, *process) {},
		"as its networks change": func(s *site, robot *process) {
			s.changeEth0("robot", removeAddrs(func(ip net.IP) bool { return !isIPv4(ip) })) // it registers anew
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
			await.NoError(t, func() error { // which has no link to it
				if list, code := s.ls("other", "--timeout", "1ms"); code != codeNothing {
					return fmt.Errorf("ls = %v and exit code %d, want nothing and %d", list, code, codeNothing)
				}
				return nil
			})
			checkPromise(t, "telling the others", time.Since(began), time.Second)
			robot.awaitLog("msg=left")
			checkPromise(t, "leaving", time.Since(began), 2*time.Second)
			robot.waitForExit() // as soon as strace lets go of its threads
			if list, code := s.ls("other", "--timeout", "1ms"); code != codeNothing {
				t.Errorf("ls after the daemon's end = %v and exit code %d, want nothing and %d", list, code, codeNothing)
			}
			if n := strings.Count(pc.log.String(), "link up"); n != 1 {
				t.Errorf("got %d links to the robot, want none with a daemon that has said goodbye", n)
			}
		})
	}
}

// slowDownClose has the kernel take five seconds to close the sockets for multicast DNS that
// a process has now, and its inotify.
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
		_ = slow.Wait() // killed is what it says
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

// isClosing is nil while a thread of the process closes something.
func (p *process) isClosing() error {
	for _, task := range p.tasks() {
		text, _ := os.ReadFile(filepath.Join(task, "syscall"))
		if number, _, _ := strings.Cut(string(text), " "); number == fmt.Sprint(syscall.SYS_CLOSE) {
			return nil
		}
	}
	return fmt.Errorf("%s closes nothing", filepath.Base(p.Path))
}
