package testnet_test

import (
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// resumeLimit is the longest time until a mirror follows again, without help, after
// any fault in these tests of real daemons on two hosts. No reader may ever see an
// older frame after a newer one (site.observe checks that).
const resumeLimit = 2 * time.Second

// meetLimit is how long two daemons may take to find each other by multicast: the
// announcement follows its probes after up to a second, and the first query is
// repeated after one, two and four seconds.
const meetLimit = 5 * time.Second

// robotAndPC is a robot that publishes and a PC that mirrors all of its channels.
type robotAndPC struct {
	*site
	robot, pc, publisher *process
	readers              *observation
}

const (
	keeping   = "keep:robot.imu"
	reopening = "reopen:robot.imu"
	parts     = "keep:robot.joints" // frames larger than a datagram
)

// Channels of a robot, with frames of one datagram and of several.
var (
	imu    = need.LongOr("imu:200:64", "imu:50:64")
	joints = need.LongOr("joints:50:3000", "joints:20:3000")
)

// startRobotAndPC starts both and waits until the mirrors follow.
func startRobotAndPC(t *testing.T) *robotAndPC {
	t.Helper()
	w := &robotAndPC{site: newSite(t, "robot", "pc")}
	w.publisher = w.publish("robot", imu, joints)
	w.robot, w.pc = w.run("robot"), w.run("pc", "--mirror", "robot/*")
	w.readers = w.observe("pc", keeping, reopening, parts)
	took := w.readers.waitUntilFollowing(now(), meetLimit, keeping, reopening, parts)
	t.Logf("found by multicast and mirrored after %v", took)
	return w
}

// checkFollows checks that all readers get frames that are put from now on.
func (w *robotAndPC) checkFollows(after string) {
	w.t.Helper()
	took := w.readers.waitUntilFollowing(now(), resumeLimit, keeping, reopening, parts)
	w.t.Logf("%s: followed again after %v", after, took)
}

func TestMirrorsFollowAfterHostAndLinkFaults(t *testing.T) {
	w := startRobotAndPC(t)
	w.linkedOver("pc", "quic")
	outage := need.LongOr(3*time.Second, 600*time.Millisecond)

	w.link("robot", "cut")
	time.Sleep(outage) // the length of the outage
	w.link("robot", "up")
	w.checkFollows("cable cut")

	w.changeEth0("robot", func(h *netlink.Handle, eth netlink.Link) error { return h.LinkSetDown(eth) })
	time.Sleep(outage)
	w.changeEth0("robot", func(h *netlink.Handle, eth netlink.Link) error { return h.LinkSetUp(eth) })
	w.checkFollows("robot's interface down")

	w.robot.kill()
	w.robot = w.run("robot")
	w.checkFollows("robot's daemon killed and restarted")

	w.pc.kill()
	w.pc = w.run("pc", "--mirror", "robot/*")
	w.checkFollows("PC's daemon killed and restarted")

	w.publisher.kill()
	w.publisher = w.publish("robot", imu, joints)
	w.checkFollows("publisher killed and restarted")

	checkPromise(t, "leaving", w.robot.terminate(), 2*time.Second)
	w.waitUntilForgotten("robot")
	w.robot = w.run("robot", "--listen", ":9000", "--transport", "sctp")
	w.checkFollows("robot's daemon restarted at another port, over SCTP alone")
	w.linkedOver("pc", "sctp")

	w.changeEth0("robot", removeAddrs(func(ip net.IP) bool { return !ip.IsLinkLocalUnicast() }))
	w.changeEth0("robot", func(h *netlink.Handle, eth netlink.Link) error {
		return h.AddrAdd(eth, &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(10, 80, 76, 200), Mask: net.CIDRMask(24, 32)}})
	})
	w.checkFollows("robot at another address")

	w.abortDaemon()
	w.runOld("robot")
	w.checkFollows("robot's daemon aborted, and restarted by a clock that is years ahead")
}

// waitUntilForgotten waits until the PC no longer lists a host that has left.
func (w *robotAndPC) waitUntilForgotten(host string) {
	w.t.Helper()
	left := time.Now()
	await.NoError(w.t, func() error {
		if list, code := w.ls("pc", host, "--timeout", "1ms"); code != codeNothing {
			return fmt.Errorf("ls %s = %v and exit code %d, want nothing and %d", host, list, code, codeNothing)
		}
		return nil
	})
	checkPromise(w.t, "forgetting a host that left", time.Since(left), time.Second)
}

// abortDaemon ends the robot's daemon with SIGABRT, as the service manager's watchdog does if a daemon
// does not answer. Go would exit with 2, our code for wrong arguments, after which the unit does not
// restart a daemon. So the daemon must be ended by the signal.
func (w *robotAndPC) abortDaemon() {
	w.t.Helper()
	w.robot.signal(syscall.SIGABRT)
	_ = w.robot.Wait() // the error is that it was aborted
	if got := w.robot.ProcessState.Sys().(syscall.WaitStatus); !got.Signaled() {
		w.t.Errorf("aborted: got %v, want that a signal ended it", w.robot.ProcessState)
	}
}
