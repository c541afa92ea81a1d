package testnet

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Params describes one direction of a link. The zero value is a perfect link: all
// packets arrive at once.
type Params struct {
	// Delay is the one-way propagation delay.
	Delay time.Duration
	// Jitter is the largest random addition to Delay, uniform for each packet. It
	// changes only the spacing of packets: a packet does not overtake the previous
	// one. To change the order use Reorder.
	Jitter time.Duration
	// Rate is in bits per second. 0 means no limit.
	Rate int64
	// Trace, if not nil, decides when packets are sent instead of Rate. From is the
	// time of the trace at the network's time zero.
	Trace *Trace
	From  time.Duration
	// Stall and Fade change the Rate periodically.
	Stall Stall
	Fade  Fade
	// Wifi, if not "", is one of WifiModels: the model of a Wi-Fi station, which
	// decides when packets are sent instead of Rate. Stations with the same Air
	// share that air. A station without Air has one to itself.
	Wifi string
	Air  string
	// Queue is how many bytes may wait for the transmitter, without the packet in
	// transmission. A packet that does not fit is dropped (tail drop). 0 means no
	// limit.
	Queue int64
	// MTU is the largest packet in bytes, including the IP header. Larger packets
	// are dropped silently, as on a path that filters ICMP. 0 means no limit.
	MTU int
	// Loss is the mean share of packets that are lost, 0 to 1. Packets are lost on
	// the wire, so a lost packet has used its transmission time.
	Loss float64
	// Burst is the mean number of packets lost in a row (Gilbert-Elliott with two
	// states: no packet is lost in the good one, all are lost in the bad one). 0
	// means that each packet is lost independently.
	Burst float64
	// Duplicate is the share of packets that arrive twice.
	Duplicate float64
	// Reorder is the share of packets that are delayed by a random time up to Delay,
	// or up to 1 ms if that is longer, so that later packets overtake them.
	Reorder float64
	// Cut drops all packets, including those in flight.
	Cut bool
}

// Check returns an error with all invalid values, in the words of the text form.
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

// checkMedium returns an error unless at most one of Rate, Trace and Wifi is set.
func (p Params) checkMedium() error {
	var errs []error
	_, known := wifiModels[p.Wifi]
	timed := p.Rate != 0 || p.Stall != (Stall{}) || p.Fade != (Fade{})
	switch {
	case p.Trace != nil && p.Wifi != "":
		errs = append(errs, errors.New("trace: goes not with wifi, which decides itself when packets leave; use wifi=none, or trace=none"))
	case p.Trace != nil && timed:
		errs = append(errs, errors.New("trace: decides itself when packets leave; use rate=none, stall=none and fade=none with it, or trace=none"))
	case p.Wifi != "" && !known:
		errs = append(errs, fmt.Errorf("wifi: %q is no model; right are %s, or none", p.Wifi, strings.Join(WifiModels(), ", ")))
	case p.Wifi != "" && timed:
		errs = append(errs, errors.New("wifi: decides itself when packets leave; use rate=none, stall=none and fade=none with it, or wifi=none"))
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

// Back returns the parameters of the reverse direction of p. It has the trace of
// that direction, or no trace if there is none. All other parameters are the same.
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

// medium returns p with only the parameters that decide when packets are sent.
func (p Params) medium() Params {
	return Params{Rate: p.Rate, Stall: p.Stall, Fade: p.Fade, Trace: p.Trace, From: p.From, Wifi: p.Wifi, Air: p.Air}
}

// hasRate reports whether Rate decides when packets are sent, not a trace or station.
func (p Params) hasRate() bool { return p.Trace == nil && p.Wifi == "" }

// transmission returns the transmission time of size bytes.
func (p Params) transmission(size int) time.Duration {
	return bitsAt(int64(size)*8, p.Rate)
}

// bitsAt returns the transmission time of bits at rate, rounded up to a nanosecond.
func bitsAt(bits, rate int64) time.Duration {
	if rate == 0 {
		return 0
	}
	// Multiply by 1e9 in two steps, since rest*1e9 would overflow.
	whole, rest := bits/rate, bits%rate
	micro, rest := rest*1e6/rate, rest*1e6%rate
	return time.Duration(whole*1e9 + micro*1e3 + (rest*1e3+rate-1)/rate)
}
