package testnet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/testnet/await"
)

// These tests step the wall clock of this machine by years, since there is no namespace
// for it. They run on a machine that has no other use (packaging/vm.sh).

// wallClockMutex guards the wall clock, which the hosts share with this machine.
var wallClockMutex sync.Mutex

// newDatedSite is newSite for a test that steps the wall clock. It locks wallClockMutex
// until the test ends, and then sets the clock back.
func newDatedSite(t *testing.T, names ...string) *site {
	t.Helper()
	if os.Getenv("ACHBRIDGE_CLOCK") != "step" {
		t.Skip("a machine whose clock may be stepped: bash packaging/vm.sh makes one")
	}
	s := newSite(t, names...)
	wallClockMutex.Lock()
	today := s.today()
	t.Cleanup(func() {
		setDate(t, today())
		wallClockMutex.Unlock()
	})
	return s
}

// today returns a function that returns the date as if the clock were not stepped from now on.
func (*site) today() func() time.Time {
	begin := time.Now()
	return func() time.Time { return begin.Add(time.Since(begin)) }
}

func setDate(t *testing.T, date time.Time) {
	t.Helper()
	to := unix.NsecToTimespec(date.UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &to); err != nil {
		t.Fatalf("date: %v", err)
	}
}

// dateWithoutBattery is the date of a computer without a battery for its clock.
var dateWithoutBattery = time.Date(1970, 1, 2, 0, 0, 0, 0, time.UTC)

// redialLimit is the longest time until a peer that could not be linked is dialled again
// and its mirrors follow.
const redialLimit = 5*time.Second + resumeLimit

func TestMirrorsFollowWhileTheWallClockIsStepped(t *testing.T) {
	s := newDatedSite(t, "robot", "pc")
	goals := s.publish("pc", "goal:10:64")
	today := s.today()
	publisher := s.publish("robot", "imu:20:64", "joints:10:3000")
	o := s.startFaultTest(faultTest{
		publishers: []*process{publisher, goals},
		daemons: map[string]*process{
			"robot": s.run("robot", "--mirror", "pc/goal,as=goal,class=command"),
			"pc":    s.run("pc", "--mirror", "robot/*"),
		},
		readers: []*observation{s.observe("pc", keeping, parts)},
	})
	up := o.countLinksUp()
	for i, step := range []struct {
		what string
		to   func() time.Time
	}{
		{"30 years ahead", func() time.Time { return today().AddDate(30, 0, 0) }},
		{"back to 2001", func() time.Time { return time.Date(2001, 9, 9, 1, 46, 40, 0, time.UTC) }},
		{"back to 1970", func() time.Time { return dateWithoutBattery }},
		{"ahead, past the end of 32 bits", func() time.Time { return time.Date(2038, 1, 19, 3, 14, 6, 0, time.UTC) }},
		{"back to today", today},
	} {
		setDate(t, step.to())
		o.checkRecovery("wall clock "+step.what, now())
		time.Sleep(2 * time.Second) // a daemon checks its certificates and clocks every second
		o.checkRecovery("2 s later", now())
		o.checkAges(step.what, i+1)
	}
	if got := o.countLinksUp(); got != up {
		t.Errorf("links: came up %s, and %s before: want none made anew", got, up)
	}
	o.finish("wall clock at rest", now())
}

// checkAges checks that every daemon knows the ages of its mirrors, and has logged that
// many steps of the clock.
func (o *faultTest) checkAges(step string, steps int) {
	o.t.Helper()
	for host, daemon := range o.daemons {
		for _, m := range o.status(host).Mirrors {
			if m.AgeMs == nil || *m.AgeMs < 0 || *m.AgeMs > 8000 || m.State != "live" {
				o.t.Errorf("%s: %s on %s: got %s and an age of %v ms, want it live and young", step, m.Name, host, m.State, formatAge(m.AgeMs))
			}
		}
		await.NoError(o.t, func() error {
			if logged := strings.Count(daemon.log.String(), `msg="wall clock stepped"`); logged < steps {
				return fmt.Errorf("%s: daemon of %s logged %d steps, want %d", step, host, logged, steps)
			}
			return nil
		})
	}
}

// formatAge formats an age that may be unknown.
func formatAge(ms *float64) string {
	if ms == nil {
		return "unknown"
	}
	return fmt.Sprint(*ms)
}

// Certificates have dates. So a robot that boots in 1970 gets no link, and reports why,
// until its clock is set. Then it gets one at once. Setting the clock back later ends no
// link. While the clock is past the end of a certificate, there is no link.
func TestHostsWithCertificatesLinkOnceTheirClockIsSet(t *testing.T) {
	for _, transport := range []string{"quic", "sctp"} {
		t.Run(transport, func(t *testing.T) {
			s := newDatedSite(t, "robot", "pc")
			today := s.today()
			s.issue("robot", "pc")
			s.publish("robot", "imu:20:64")
			setDate(t, dateWithoutBattery)
			robot := s.run("robot", "--transport", transport)
			pc := s.run("pc", "--mirror", "robot/*", "--transport", transport)
			robot.awaitLog("our certificate is not valid now") // both clocks are in 1970

			setDate(t, today())
			set, readers := now(), s.observe("pc", keeping)
			t.Logf("mirrored %v after the clock was set", readers.waitUntilFollowing(set, redialLimit, keeping))
			o := faultTest{site: s, daemons: map[string]*process{"robot": robot, "pc": pc}}
			up := o.countLinksUp()

			setDate(t, dateWithoutBattery)
			time.Sleep(3 * time.Second) // the daemons check certificates every second
			readers.waitUntilFollowing(now(), resumeLimit, keeping)
			if got := o.countLinksUp(); got != up {
				t.Errorf("clock set back to 1970: links came up %s, and %s before: want none made anew", got, up)
			}

			setDate(t, today().AddDate(30, 0, 0))
			pc.awaitLog(`msg="link down"`)
			if text := pc.log.String(); !strings.Contains(text, "peer is not trusted any more") && !strings.Contains(text, "closed by peer: your certificate is not valid now") {
				t.Error("nothing says that the link has ended with a certificate") // either host may log it
			}
			time.Sleep(2 * time.Second) // some refusals
			setDate(t, today())
			t.Logf("mirrored again %v after the clock was set", readers.waitUntilFollowing(now(), redialLimit, keeping))
		})
	}
}

// issue replaces the shared key of each host by a certificate of a new authority.
func (s *site) issue(names ...string) {
	s.t.Helper()
	dir := s.t.TempDir()
	ca := filepath.Join(dir, "ca")
	s.must(names[0], "ca", "init", "--dir", ca)
	for _, host := range names {
		key := filepath.Join(dir, host)
		s.must(names[0], "ca", "issue", host, "--dir", ca, "--out", key)
		s.shell(host, `install -m 600 "$0" /etc/achbridge/key`, key)
	}
}
