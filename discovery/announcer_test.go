package discovery

import (
	"net/netip"
	"testing"
	"time"
)

func TestAnnounceIntervalIsAtMostHalfAMinute(t *testing.T) {
	for lifetime, most := range map[time.Duration]time.Duration{
		time.Hour: 30 * time.Second, 2 * time.Minute: 30 * time.Second, defaultLifetime: defaultLifetime * 11 / 40, 4 * time.Second: 1100 * time.Millisecond,
	} {
		self := robot()
		self.lifetime = lifetime
		a, err := NewAnnouncer(Config{Self: self, Port: 8076})
		if err != nil {
			t.Fatal(err)
		}
		r := &announceState{Announcer: a}
		for range 1000 {
			r.schedule(t0)
			if wait := r.nextRepeat.Sub(t0); wait > most || wait < most/2 {
				t.Fatalf("life %v: got the next announcement after %v, want within %v", lifetime, wait, most)
			}
		}
	}
	if maxBelief < 4*30*time.Second {
		t.Errorf("an announcement is believed for %v: three that are lost in a row must not lose a host", maxBelief)
	}
}

func TestRateLimiterIsFairToOtherSources(t *testing.T) {
	in := newRateLimiter()
	flood, robot := addr("10.0.0.66"), addr("10.0.0.2")
	taken := 0
	for i := range 100_000 { // in one second
		if in.allow(after(time.Duration(i)*10*time.Microsecond), flood) {
			taken++
		}
		if i%1000 == 0 && !in.allow(after(time.Duration(i)*10*time.Microsecond), robot) {
			t.Fatal("a packet of the robot was not read")
		}
	}
	if taken != maxSourceRate {
		t.Errorf("got %d packets read of one source in a second, want %d", taken, maxSourceRate)
	}
	if !in.allow(after(time.Second), flood) {
		t.Error("nothing of that source is read in the next second")
	}
	for i := range 1 << 16 {
		in.allow(after(time.Second), netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}))
	}
	if len(in.perSource) > maxPacketRate {
		t.Errorf("got %d sources remembered, want at most %d", len(in.perSource), maxPacketRate)
	}
}

// An attacker that forges sources at the beginning of a second gets no larger share than one that sends evenly.
func TestRateLimiterSpreadsPacketsOverTheSecond(t *testing.T) {
	in := newRateLimiter()
	robot, taken := addr("10.0.0.2"), 0
	for second := range 10 {
		at := time.Duration(second) * time.Second
		for i := range 2 * maxPacketRate {
			if in.allow(after(at), netip.AddrFrom4([4]byte{10, byte(1 + second), byte(i >> 8), byte(i)})) {
				taken++
			}
		}
		for ms := 100; ms < 1000; ms += 100 {
			if !in.allow(after(at+time.Duration(ms)*time.Millisecond), robot) {
				t.Fatalf("second %d: the robot's packet was not read %d ms after the flood", second, ms)
			}
		}
	}
	if taken != 10*maxPacketBurst {
		t.Errorf("got %d packets of the floods read, want %d of each", taken, maxPacketBurst)
	}

	taken = 0
	for i := range 100_000 { // in one second
		if in.allow(after(20*time.Second+time.Duration(i)*10*time.Microsecond), netip.AddrFrom4([4]byte{11, 0, byte(i >> 8), byte(i)})) {
			taken++
		}
	}
	if most := maxPacketRate + maxPacketBurst; taken > most || taken < maxPacketRate {
		t.Errorf("got %d packets read in a second, want %d to %d", taken, maxPacketRate, most)
	}
}
