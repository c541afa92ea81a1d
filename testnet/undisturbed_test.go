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

// The robot comes first: whatever becomes of the bridge, the robot's writer
// puts as if it were alone. A put that met a lock held by a stopped or killed
// daemon would take 100 ms and fail; a broadcast to a killed waiter would never
// return.
func TestBridgeDoesNotDelayWriter(t *testing.T) {
	need.Long(t) // it compares times
	s := newSite(t, "robot", "pc")
	alone := s.publish("robot", "imu:1000:64")
	time.Sleep(time.Second) // the length of the comparison
	before := alone.puts()

	publisher := s.publish("robot", "imu:1000:64")
	robot := s.run("robot")
	s.run("pc", "--mirror", "robot/*")
	readers := s.observe("pc", keeping)
	readers.waitUntilFollowing(now(), meetLimit, keeping)
	for range 10 { // somewhere inside whatever the daemon does with the channel
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

// puts is what a publisher tells of one of its channels at its end.
type puts struct {
	channel       string
	count, failed int
	worst, lived  time.Duration
}

// puts ends the publisher of one channel.
func (p *process) puts() puts {
	p.t.Helper()
	lived := time.Since(p.began)
	p.terminate()
	r := p.putStats()[0]
	r.lived = lived
	return r
}

// putStats is what a publisher tells of its channels when it puts no more.
func (p *process) putStats() (all []puts) {
	p.t.Helper()
	await.True(p.t, "the publisher has not told of all its channels", func() bool {
		text := p.log.String()
		return strings.Count(text, "msg=published ") == strings.Count(text, "msg=publishing ")
	})
	for line := range strings.Lines(p.log.String()) {
		_, numbers, stats := strings.Cut(line, "msg=published channel=")
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
