package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"achbridge/bridge"
)

// demand is one channel that is to be carried over one link.
type demand struct {
	what   string // for people
	bytes  int    // of a frame, as it is sent
	hz     float64
	budget time.Duration
	every  bool          // no frame may be left out
	rate   float64       // what the link carries, bits a second
	delay  time.Duration // one way, without the sending
}

// sending is how long the link takes to send one frame.
func (d demand) sending() time.Duration {
	return time.Duration(float64(d.bytes) * 8 / d.rate * float64(time.Second))
}

// best are the least mean and peak age that a mirror can have over the link when
// it carries nothing else: frames come every T, take S to send and P to travel.
// As long as they fit, the mean age of periodic updates is P + S + T/2 and the
// peak P + S + T. When S > T, the best is to send the newest as soon as the one
// before has left: P + T/2 + 1.5 S and P + T/2 + 2 S (the mean over the wait,
// which is between 0 and T).
func (d demand) best() (mean, peak time.Duration) {
	T, S := time.Duration(float64(time.Second)/d.hz), d.sending()
	if S <= T {
		return d.delay + S + T/2, d.delay + S + T
	}
	return d.delay + T/2 + S*3/2, d.delay + T/2 + 2*S
}

// problem says why the link cannot do it, "" when it can.
func (d demand) problem() string {
	late := d.delay+d.sending() > d.budget
	slow := d.every && d.hz > 0 && d.sending() > time.Duration(float64(time.Second)/d.hz)
	if d.bytes == 0 || d.rate == 0 || !late && !slow {
		return ""
	}
	why := fmt.Sprintf("budget %v cannot hold", d.budget)
	if !late {
		why = "mode every cannot keep up"
	}
	text := fmt.Sprintf("%s: %s: a frame of %s takes %s at %s", d.what, why, aboutBytes(d.bytes), millis(msOf(d.sending())), bitRate(d.rate))
	if d.delay > 0 {
		text += fmt.Sprintf(" and %s on its way", millis(msOf(d.delay)))
	}
	if d.hz == 0 {
		return text
	}
	mean, peak := d.best()
	text += fmt.Sprintf("; at best its age is %s on the mean and %s at its peak", millis(msOf(mean)), millis(msOf(peak)))
	if most := float64(time.Second) / float64(d.sending()); most < d.hz {
		text += fmt.Sprintf(", with %.3g of its %.3g frames a second", most, d.hz)
	}
	return text
}

func msOf(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// demandsOf are the subscriptions that a daemon serves, by two looks at it some
// time apart. rate is what every link carries; 0: what was measured. Links that
// never were full carry more than is known, and channels at rest need nothing:
// these have no rate.
func demandsOf(before, after bridge.Status, apart time.Duration, rate bitRate) (list []demand) {
	links := map[string]bridge.LinkStatus{}
	for _, l := range after.Links {
		links[l.Peer] = l
	}
	offered := map[string]uint64{}
	for _, e := range before.Exports {
		offered[e.Peer+"/"+e.Channel] = e.Offered
	}
	for _, e := range after.Exports {
		then, known := offered[e.Peer+"/"+e.Channel]
		link := links[e.Peer]
		d := demand{
			what: e.Channel + " for " + e.Peer, bytes: e.Bytes, every: e.QoS.Mode == bridge.Every,
			budget: budgetOf(e.QoS), rate: float64(rate), delay: time.Duration(link.RTTms / 2 * float64(time.Millisecond)),
		}
		if known {
			d.hz = limited(float64(e.Offered-then)/apart.Seconds(), e.QoS.MaxRate)
		}
		if d.rate == 0 && link.PathMbit != nil && e.Offered > then {
			d.rate = *link.PathMbit * 1e6
		}
		list = append(list, d)
	}
	return list
}

// limited is a rate of frames that max_rate, if there is one, holds down.
func limited(hz float64, most bridge.Rate) float64 {
	if most != 0 && (hz == 0 || hz > most.Hz()) {
		return most.Hz()
	}
	return hz
}

// fitEvery is how often a daemon looks whether its links can do what is asked,
// and unfitFor in how many looks in a row they cannot before it says so.
const (
	fitEvery = 10 * time.Second
	unfitFor = 3
)

// watchFit says once of every subscription that its link cannot do what it asks.
func (d *running) watchFit(ctx context.Context) error {
	before, at, seen := d.node.Glance(), time.Now(), map[string]int{}
	return repeat(ctx, fitEvery, func() {
		after, now := d.node.Glance(), time.Now()
		for _, text := range unfit(seen, demandsOf(before, after, now.Sub(at), 0)) {
			d.log.Warn("a link cannot do what is asked of it", "cause", text)
		}
		before, at = after, now
	})
}

// unfit returns what is to be said of demands; seen counts in how many looks in a
// row each could not be met.
func unfit(seen map[string]int, demands []demand) (list []string) {
	for _, d := range demands {
		key, text := fmt.Sprint(d.what, d.budget, d.every), d.problem()
		switch {
		case text == "" && seen[key] < unfitFor:
			delete(seen, key)
		case text != "" && len(seen) < maxTold:
			if seen[key]++; seen[key] == unfitFor {
				list = append(list, text)
			}
		}
	}
	return list
}

// bitRate is a rate in bits a second on the command line: 20Mbit. Units are
// decimal and case does not matter.
type bitRate float64

var rateUnits = []struct {
	name string
	bits float64
}{{"Gbit", 1e9}, {"Mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}}

func (r bitRate) String() string {
	for _, unit := range rateUnits {
		if float64(r) >= unit.bits {
			return strconv.FormatFloat(float64(r)/unit.bits, 'g', 4, 64) + " " + unit.name + "/s"
		}
	}
	return "0"
}

func (r *bitRate) Type() string { return "RATE" }

func (r *bitRate) Set(text string) error {
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/")
	name := strings.TrimSuffix(strings.ToLower(text[len(number):]), "/s")
	for _, unit := range rateUnits {
		if f, err := strconv.ParseFloat(number, 64); err == nil && strings.EqualFold(name, unit.name) && f*unit.bits >= 1 && f*unit.bits <= 1e15 {
			*r = bitRate(f * unit.bits)
			return nil
		}
	}
	return fmt.Errorf("%q: want a rate, as in 20Mbit (bit, kbit, Mbit or Gbit a second)", text)
}
