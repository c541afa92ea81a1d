package testnet

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Params describe one direction of a link. The zero value is a perfect link:
// everything arrives at once.
type Params struct {
	// Delay is the propagation time, one way.
	Delay time.Duration
	// Jitter is the most that is added to Delay, uniformly at random for each
	// packet. It changes spacing only: a packet that would overtake the one
	// before waits for it. Reorder is what changes the order.
	Jitter time.Duration
	// Rate is in bits per second; 0 is no limit.
	Rate int64
	// Trace, if not nil, is what the transmitter does instead of Rate. From is
	// where the trace begins at the network's time zero.
	Trace *Trace
	From  time.Duration
	// Stall and Fade change the Rate by the network's time.
	Stall Stall
	Fade  Fade
	// Wifi, if not "", is the model of a station that sends instead of Rate:
	// one of WifiModels. The stations of a network whose Air has one name share
	// that air; one without a name has the air to itself.
	Wifi string
	Air  string
	// Queue is how many bytes may wait for the transmitter, beside the packet
	// being transmitted; a packet that does not fit is dropped (tail drop).
	// 0 is no limit.
	Queue int64
	// MTU drops larger packets without a word, as a path does whose ICMP is
	// filtered. Bytes with the IP header; 0 is no limit.
	MTU int
	// Loss is the share of packets lost in the long run, 0 to 1. They are lost
	// behind the transmitter: a lost packet has used its time on the link.
	Loss float64
	// Burst is the mean number of packets lost in a row (Gilbert-Elliott with
	// two states, nothing lost in the good one and everything in the bad one).
	// 0 loses each packet independently of the others.
	Burst float64
	// Duplicate is the share of packets that arrive twice.
	Duplicate float64
	// Reorder is the share of packets held back by a random time of at most
	// Delay, and at least up to 1 ms, so that later ones overtake them.
	Reorder float64
	// Cut loses everything, also what is under way.
	Cut bool
}

// Check reports every value that makes no sense, in the words of the text
// form.
func (p Params) Check() error {
	var errs []error
	for _, d := range []struct {
		key   string
		value time.Duration
	}{{"delay", p.Delay}, {"jitter", p.Jitter}} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("%s: %v is negative; right is a time such as 10ms", d.key, d.value))
		}
	}
	for _, f := range []struct {
		key   string
		value float64
	}{{"loss", p.Loss}, {"dup", p.Duplicate}, {"reorder", p.Reorder}} {
		if !(f.value >= 0 && f.value <= 1) {
			errs = append(errs, fmt.Errorf("%s: %s is not a share; right is 0%% to 100%%", f.key, formatShare(f.value)))
		}
	}
	if p.Rate < 0 || p.Rate > maxRate {
		errs = append(errs, fmt.Errorf("rate: %d bit/s is out of range; right is 1bit to 1000gbit, or none", p.Rate))
	}
	if p.Queue < 0 {
		errs = append(errs, fmt.Errorf("queue: %d bytes is negative; right is a size such as 64KiB, or none", p.Queue))
	}
	if p.MTU < 0 {
		errs = append(errs, fmt.Errorf("mtu: %d bytes is negative; right is a size such as 1280, or none", p.MTU))
	}
	return errors.Join(append(errs, p.checkBurst(), p.checkStall(), p.checkMedium())...)
}

// checkMedium wants one thing that says when packets leave.
func (p Params) checkMedium() error {
	var errs []error
	_, known := wifiModels[p.Wifi]
	timed := p.Rate != 0 || p.Stall != (Stall{}) || p.Fade != (Fade{})
	switch {
	case p.Trace != nil && p.Wifi != "":
		errs = append(errs, errors.New("trace: goes not with wifi, which says itself when packets leave; right is wifi=none, or trace=none"))
	case p.Trace != nil && timed:
		errs = append(errs, errors.New("trace: says itself when packets leave; right is rate=none, stall=none and fade=none beside it, or trace=none"))
	case p.Wifi != "" && !known:
		errs = append(errs, fmt.Errorf("wifi: %q is no model; right are %s, or none", p.Wifi, strings.Join(WifiModels(), ", ")))
	case p.Wifi != "" && timed:
		errs = append(errs, errors.New("wifi: says itself when packets leave; right is rate=none, stall=none and fade=none beside it, or wifi=none"))
	}
	if p.From < 0 || p.From != 0 && p.Trace == nil {
		errs = append(errs, fmt.Errorf("from: %v, but there is no trace to begin in; name it with trace=FILE, or leave from out", p.From))
	}
	if p.Air != "" && p.Wifi == "" {
		errs = append(errs, fmt.Errorf("air: %s, but only links with wifi share air; right is air=none, or wifi=%s", p.Air, WifiModels()[0]))
	}
	if strings.ContainsAny(p.Air, ", ") {
		errs = append(errs, fmt.Errorf("air: %q has a comma or a space; right is a name such as air=hall", p.Air))
	}
	return errors.Join(errs...)
}

// Back returns what a host's peers send by when the host sends by p: the trace
// of the way back, or no trace if there is none, since p's says nothing about
// that way. All else is the same both ways.
func (p Params) Back() Params {
	if p.Trace == nil {
		return p
	}
	if p.Trace = p.Trace.reverse; p.Trace == nil {
		p.From = 0
	}
	return p
}

func (p Params) checkBurst() error {
	switch {
	case p.Burst == 0:
		return nil
	case !(p.Burst >= 1 && p.Burst <= 1e6):
		return fmt.Errorf("burst: %v packets cannot be lost in a row on average; right is 1 to 1000000, or none", p.Burst)
	case p.Loss > p.Burst/(p.Burst+1):
		return fmt.Errorf("burst: %v packets in a row cannot make a loss of %s, at most %s; a longer burst can, or none",
			p.Burst, formatShare(p.Loss), formatShare(p.Burst/(p.Burst+1)))
	}
	return nil
}

// medium is what says when packets leave.
func (p Params) medium() Params {
	return Params{Rate: p.Rate, Stall: p.Stall, Fade: p.Fade, Trace: p.Trace, From: p.From, Wifi: p.Wifi, Air: p.Air}
}

// hasRate tells that it is the rate that says when packets leave.
func (p Params) hasRate() bool { return p.Trace == nil && p.Wifi == "" }

// transmission returns how long the transmitter needs for size bytes.
func (p Params) transmission(size int) time.Duration {
	return bitsAt(int64(size)*8, p.Rate)
}

// bitsAt rounds up to the next nanosecond.
func bitsAt(bits, rate int64) time.Duration {
	if rate == 0 {
		return 0
	}
	// In two steps of a thousand and a million: rest*1e9 would not fit 63 bits.
	whole, rest := bits/rate, bits%rate
	micro, rest := rest*1e6/rate, rest*1e6%rate
	return time.Duration(whole*1e9 + micro*1e3 + (rest*1e3+rate-1)/rate)
}
