package testnet_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// Whatever happens to the bridge, the puts of the robot's writer must take as long as
// without it. If a stopped or killed daemon held the lock, a put would take 100 ms and
// fail. If a waiter was killed, the broadcast of a put would never return.
func TestBridgeDoesNotDelayWriter(t *testing.T) {
	need.Long(t) // it compares times
	s := newSite(t, "robot", "pc")
	alone := s.publish("robot", "imu:1000:64")
	time.Sleep(time.Second) // the length of the measurement
	before := alone.puts()

	publisher := s.publish("robot", "imu:1000:64")
	robot := s.run("robot")
	s.run("pc", "--mirror", "robot/*")
	readers := s.observe("pc", keeping)
	readers.waitUntilFollowing(now(), meetLimit, keeping)
	for range 10 { // at random moments of the daemon's use of the channel
		time.Sleep(rand.N(20 * time.Millisecond))
		robot.signal(syscall.SIGSTOP)
		time.Sleep(30 * time.Millisecond)
		robot.signal(syscall.SIGCONT)
	}
	for range 2 {
		time.Sleep(rand.N(20 * time.Millisecond))
		robot.kill()
		robot = s.run("robot")
		readers.waitUntilFollowing(now(), resumeLimit, keeping)
	}
	robot.signal(syscall.SIGSTOP)
	time.Sleep(300 * time.Millisecond)
	robot.kill()
	after := publisher.puts()

	t.Logf("alone: %v; with the bridge: %v", before, after)
	if after.failed != 0 {
		t.Errorf("failed puts: got %d, want 0", after.failed)
	}
	checkPromise(t, "a put", after.worst, before.worst+50*time.Millisecond)
	if after.rate() < before.rate()*3/4 {
		t.Errorf("puts: got %.0f a second, want about %.0f as without the bridge", after.rate(), before.rate())
	}
}

// puts is the report of a publisher about one of its channels.
type puts struct {
	channel       string
	count, failed int
	worst, lived  time.Duration
}

// puts stops the publisher of one channel and returns its report.
func (p *process) puts() puts {
	p.t.Helper()
	lived := time.Since(p.began)
	p.terminate()
	r := p.putStats()[0]
	r.lived = lived
	return r
}

// putStats returns the reports of a publisher that has stopped.
func (p *process) putStats() (all []puts) {
	p.t.Helper()
	await.True(p.t, "the publisher has not reported all its channels", func() bool {
		text := p.log.String()
		return strings.Count(text, `msg="frames published" `) == strings.Count(text, `msg="publishing frames" `)
	})
	for line := range strings.Lines(p.log.String()) {
		_, numbers, stats := strings.Cut(line, `msg="frames published" channel=`)
		if !stats {
			continue
		}
		var r puts
		var worst string
		_, err := fmt.Sscanf(numbers, "%s count=%d failed=%d worst_put=%s", &r.channel, &r.count, &r.failed, &worst)
		if err == nil {
			r.worst, err = time.ParseDuration(worst)
		}
		if err != nil {
			p.t.Fatalf("publisher: got %q: %v", line, err)
		}
		all = append(all, r)
	}
	return all
}

func (p puts) rate() float64 { return float64(p.count) / p.lived.Seconds() }

func (p puts) String() string {
	return fmt.Sprintf("%d puts in %v, %d failed, worst %v", p.count, p.lived.Round(time.Millisecond), p.failed, p.worst)
}
