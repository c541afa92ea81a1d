package testnet

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Stall stops the transmitter for the first part of every period, as if it waited
// for its turn. The first period begins at the network's time zero. It models
// neither stalls of random length nor stalls that depend on the traffic. The zero
// value means no stalls.
type Stall struct{ For, Every time.Duration }

// Fade lowers the rate of the transmitter to Rate, in bits per second, for the last
// part of every period, as behind a wall. The packet in transmission continues at
// the new rate. It models neither gradual fades, nor losses, nor a handover to
// another cell. The zero value means no fades.
type Fade struct {
	Every, For time.Duration
	Rate       int64
}

func (s Stall) String() string { return s.For.String() + "/" + s.Every.String() }

func (f Fade) String() string {
	return f.Every.String() + "/" + f.For.String() + "/" + formatRate(f.Rate)
}

// rateAt returns the rate of the transmitter at now in bits per second, which may
// be infinite, and until when it stays the same.
func (p Params) rateAt(now time.Duration) (rate float64, until time.Duration) {
	rate, until = float64(p.Rate), math.MaxInt64
	if p.Rate == 0 {
		rate = math.Inf(1)
	}
	if f := p.Fade; f.Every > 0 {
		begin := now - now%f.Every
		if until = begin + f.Every - f.For; now >= until {
			rate, until = float64(f.Rate), begin+f.Every
		}
	}
	if s := p.Stall; s.Every > 0 {
		begin := now - now%s.Every
		if now < begin+s.For {
			return 0, begin + s.For
		}
		until = min(until, begin+s.Every)
	}
	return rate, until
}

// departure returns when the transmitter will have sent bits if it begins at at.
func (p Params) departure(at time.Duration, bits float64) time.Duration {
	for {
		rate, until := p.rateAt(at)
		switch {
		case rate == 0:
		case bits*1e9/rate <= float64(until-at):
			return at + time.Duration(math.Ceil(bits*1e9/rate))
		default:
			bits -= rate * (until - at).Seconds()
		}
		at = until
	}
}

// carries returns how many bits the transmitter sends between two times.
func (p Params) carries(from, to time.Duration) (bits float64) {
	for from < to {
		rate, until := p.rateAt(from)
		until = min(until, to)
		if rate > 0 {
			bits += rate * (until - from).Seconds()
		}
		from = until
	}
	return bits
}

// stallEnd returns when the transmitter is not stalled, at now or later.
func (p Params) stallEnd(now time.Duration) time.Duration {
	if rate, until := p.rateAt(now); rate == 0 {
		return until
	}
	return now
}

// minOpen is the shortest time between two stalls. It bounds how many periods one packet takes.
const minOpen = time.Millisecond

func (p Params) checkStall() error {
	var errs []error
	if s := p.Stall; s != (Stall{}) && !(s.For > 0 && s.Every-s.For >= minOpen) {
		errs = append(errs, fmt.Errorf("stall: %v does not leave at least 1ms of the period; right is PART/PERIOD such as 5ms/25ms, or none", s))
	}
	if f := p.Fade; f != (Fade{}) && !(f.For >= minOpen && f.Every-f.For >= minOpen && f.Rate > 0 && f.Rate <= maxRate) {
		errs = append(errs, fmt.Errorf("fade: %v is no part and rate, with at least 1ms in the fade and outside; right is PERIOD/PART/RATE such as 20s/10s/12kbit, or none", f))
	}
	return errors.Join(errs...)
}

// parseStall parses "5ms/25ms".
func parseStall(s string) (Stall, error) {
	if s == "none" || s == "0" {
		return Stall{}, nil
	}
	part, period, ok := strings.Cut(s, "/")
	short, err := parseTime(part)
	long, errLong := parseTime(period)
	if !ok || err != nil || errLong != nil || short == 0 {
		return Stall{}, fmt.Errorf("%q is not PART/PERIOD; right is such as 5ms/25ms, or none", s)
	}
	return Stall{For: short, Every: long}, nil
}

// parseFade parses "20s/10s/12kbit".
func parseFade(s string) (Fade, error) {
	if s == "none" || s == "0" {
		return Fade{}, nil
	}
	words := strings.Split(s, "/")
	if len(words) != 3 {
		words = make([]string, 3)
	}
	long, err := parseTime(words[0])
	short, errShort := parseTime(words[1])
	rate, errRate := parseRate(words[2])
	if err != nil || errShort != nil || errRate != nil || short == 0 {
		return Fade{}, fmt.Errorf("%q is not PERIOD/PART/RATE; right is such as 20s/10s/12kbit, or none", s)
	}
	return Fade{Every: long, For: short, Rate: rate}, nil
}
