package testnet

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Stall is a transmitter that stands still for the first part of every period,
// as one does that waits for its turn. The periods begin with the network's
// time. It does not model stalls of chance length, nor anything that depends on
// what is sent. The zero value is none.
type Stall struct{ For, Every time.Duration }

// Fade is a transmitter that carries less in the last part of every period, as
// behind a wall: Rate in bits per second instead of the link's. The packet in
// transmission goes on at the new rate. It does not model how a fade comes and
// goes little by little, losses, nor that a cell hands its hosts over. The zero
// value is none.
type Fade struct {
	Every, For time.Duration
	Rate       int64
}

func (s Stall) String() string { return s.For.String() + "/" + s.Every.String() }

func (f Fade) String() string {
	return f.Every.String() + "/" + f.For.String() + "/" + formatRate(f.Rate)
}

// rateAt is what the transmitter carries at a time, in bits per second, and for
// how long it stays so; infinity is no limit.
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

// departure returns when bits have left that the transmitter begins with at a time.
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

// carries returns how many bits the transmitter carries between two times.
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

// stallEnd is when the transmitter does not stand still any more.
func (p Params) stallEnd(now time.Duration) time.Duration {
	if rate, until := p.rateAt(now); rate == 0 {
		return until
	}
	return now
}

// minOpen bounds how many periods one packet takes.
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

// parseStall reads "5ms/25ms".
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

// parseFade reads "20s/10s/12kbit".
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
