package discovery

import (
	"net/netip"
	"testing"
	"time"
)

func TestHostAnnouncesItselfEveryHalfMinuteAtLeast(t *testing.T) {
	for life, most := range map[time.Duration]time.Duration{
		time.Hour: 30 * time.Second, 2 * time.Minute: 30 * time.Second, defaultLife: defaultLife * 11 / 40, 4 * time.Second: 1100 * time.Millisecond,
	} {
		self := robot()
		self.life = life
		a, err := NewAnnouncer(Config{Self: self, Port: 8076})
		if err != nil {
			t.Fatal(err)
		}
		r := &running{Announcer: a}
		for range 1000 {
			r.schedule(t0)
			if wait := r.again.Sub(t0); wait > most || wait < most/2 {
				t.Fatalf("life %v: got the next announcement after %v, want within %v", life, wait, most)
			}
		}
	}
	if maxBelief < 4*30*time.Second {
		t.Errorf("an announcement is believed for %v: three that are lost in a row must not lose a host", maxBelief)
	}
}

func TestFloodOfOneSourceLeavesTheOthersTheirPackets(t *testing.T) {
	var in intake
	flood, robot := who("10.0.0.66"), who("10.0.0.2")
	taken := 0
	for i := range 100_000 { // in one second
		if in.takes(after(time.Duration(i)*10*time.Microsecond), flood) {
			taken++
		}
		if i%1000 == 0 && !in.takes(after(time.Duration(i)*10*time.Microsecond), robot) {
			t.Fatal("a packet of the robot was not read")
		}
	}
	if taken != maxPacketsOfSource {
		t.Errorf("got %d packets read of one source in a second, want %d", taken, maxPacketsOfSource)
	}
	if !in.takes(after(time.Second), flood) {
		t.Error("nothing of that source is read in the next second")
	}
	for i := range 1 << 16 {
		in.takes(after(time.Second), netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}))
	}
	if len(in.of) > maxPackets {
		t.Errorf("got %d sources remembered, want at most %d", len(in.of), maxPackets)
	}
}

// Whoever forges sources has a share by what he sends, and not by when he sends it.
func TestFloodInTheFirstMomentLeavesTheRestOfTheSecond(t *testing.T) {
	var in intake
	robot, taken := who("10.0.0.2"), 0
	for second := range 10 {
		at := time.Duration(second) * time.Second
		for i := range 2 * maxPackets {
			if in.takes(after(at), netip.AddrFrom4([4]byte{10, byte(1 + second), byte(i >> 8), byte(i)})) {
				taken++
			}
		}
		for ms := 100; ms < 1000; ms += 100 {
			if !in.takes(after(at+time.Duration(ms)*time.Millisecond), robot) {
				t.Fatalf("second %d: the robot's packet was not read %d ms after the flood", second, ms)
			}
		}
	}
	if taken != 10*maxPacketsAtOnce {
		t.Errorf("got %d packets of the floods read, want %d of each", taken, maxPacketsAtOnce)
	}

	taken = 0
	for i := range 100_000 { // in one second
		if in.takes(after(20*time.Second+time.Duration(i)*10*time.Microsecond), netip.AddrFrom4([4]byte{11, 0, byte(i >> 8), byte(i)})) {
			taken++
		}
	}
	if most := maxPackets + maxPacketsAtOnce; taken > most || taken < maxPackets {
		t.Errorf("got %d packets read in a second, want %d to %d", taken, maxPackets, most)
	}
}
