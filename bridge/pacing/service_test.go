package pacing

import (
	"testing"
	"time"

	"achbridge/bridge/delivery"
)

// The average must follow a path that becomes faster within a few round trips, and a stall must
// lower it only little.
func TestServiceRateRisesFastAndFallsSlowly(t *testing.T) {
	var s service
	at := time.Second
	play := func(rate float64, length time.Duration) {
		gap := time.Duration(1000 / rate * float64(time.Second))
		for end := at + length; at < end; at += gap {
			s.note(delivery.Delivery{Size: 1000 - headerBytes, Sent: at - rtt, Arrived: at}, 0, rtt)
		}
	}
	play(1*mbit, time.Second)
	if s.rate < 0.9*mbit || s.rate > 1.3*mbit {
		t.Fatalf("a path of 1 Mbit/s is taken for one of %.2f", s.rate/mbit)
	}
	play(8*mbit, 100*time.Millisecond)
	if s.rate < 6*mbit {
		t.Errorf("100 ms after it carries 8 Mbit/s it is taken for one of %.2f", s.rate/mbit)
	}
	play(8*mbit, time.Second)
	at += 30 * time.Millisecond
	play(8*mbit, 5*time.Millisecond)
	if s.rate < 6*mbit {
		t.Errorf("a stall of 30 ms makes it one of %.2f, want at least 6 of 8", s.rate/mbit)
	}
}
