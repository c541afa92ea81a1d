package diagnose

import (
	"fmt"
	"math"
	"time"

	"achbridge/bridge/delivery"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/bridge/unit"
	"achbridge/cmd/achbridge/ui"
)

// Demand is the rate and delay that one subscription needs of its link.
type Demand struct {
	What   string // for people
	Bytes  int    // size of a frame as it is sent
	Hz     float64
	Budget time.Duration
	Every  bool          // mode every: each frame must be sent
	Rate   float64       // capacity of the link, bits a second
	delay  time.Duration // one way, without the time to send a frame
}

// sending returns the time that the link needs to send one frame.
func (d Demand) sending() time.Duration {
	return time.Duration(float64(d.Bytes) * 8 / d.Rate * float64(time.Second))
}

// best returns the smallest mean and peak age that a mirror can have when the link carries
// nothing else. A frame is put every T, takes S to send and P to travel. If S <= T, the mean
// age is P + S + T/2 and the peak is P + S + T. If S > T, it is best to send the newest frame
// as soon as the previous one has left. Then the mean is P + T/2 + 1.5 S and the peak
// P + T/2 + 2 S, averaged over the wait, which is between 0 and T.
func (d Demand) best() (mean, peak time.Duration) {
	T, S := time.Duration(float64(time.Second)/d.Hz), d.sending()
	if S <= T {
		return d.delay + S + T/2, d.delay + S + T
	}
	return d.delay + T/2 + S*3/2, d.delay + T/2 + 2*S
}

// Mbit returns the rate that all frames need on the link, in Mbit/s with their headers.
func (d Demand) Mbit() float64 {
	packets := max(1, math.Ceil(float64(d.Bytes)/packetPayload))
	return d.Hz * (float64(d.Bytes) + packets*delivery.HeaderBytes) * 8 / 1e6
}

// packetPayload is the approximate number of bytes of a frame in one packet.
const packetPayload = 1100

// Problem returns the reason why the link cannot carry the channel, or "" if it can.
func (d Demand) Problem() string {
	late := d.delay+d.sending() > d.Budget
	slow := d.Every && d.Hz > 0 && d.sending() > time.Duration(float64(time.Second)/d.Hz)
	if d.Bytes == 0 || d.Rate == 0 || !late && !slow {
		return ""
	}
	why := fmt.Sprintf("budget %s cannot hold", unit.Time(d.Budget))
	if !late {
		why = "mode every cannot keep up"
	}
	text := fmt.Sprintf("%s: %s: a frame of %s takes %s at %s", d.What, why, ui.AboutBytes(d.Bytes), ui.Millis(ui.Milliseconds(d.sending())), ui.BitRate(d.Rate))
	if d.delay > 0 {
		text += fmt.Sprintf(" and %s on its way", ui.Millis(ui.Milliseconds(d.delay)))
	}
	if d.Hz == 0 {
		return text
	}
	mean, peak := d.best()
	text += fmt.Sprintf("; at best its age is %s on average and %s at its peak", ui.Millis(ui.Milliseconds(mean)), ui.Millis(ui.Milliseconds(peak)))
	if most := float64(time.Second) / float64(d.sending()); most < d.Hz {
		text += fmt.Sprintf(", with %.3g of its %.3g frames a second", most, d.Hz)
	}
	return text
}

// DemandsOf returns the demands of the subscriptions that a daemon serves, from two reports
// that are apart from each other. rate is the capacity of every link; 0 means the measured
// one. A demand has no rate if the link was never full, so that its capacity is unknown, or
// if the channel rests.
func DemandsOf(before, after status.Report, apart time.Duration, rate ui.BitRate) (list []Demand) {
	links := map[string]status.Link{}
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
		d := Demand{
			What: e.Channel + " for " + e.Peer, Bytes: e.Bytes, Every: e.QoS.Mode == rule.Every,
			Budget: e.QoS.EffectiveBudget(), Rate: float64(rate), delay: time.Duration(link.RTTms / 2 * float64(time.Millisecond)),
		}
		if known {
			d.Hz = Limited(float64(less(e.Offered, then))/apart.Seconds(), e.QoS.MaxRate)
		}
		if d.Rate == 0 && link.PathMbit != nil && e.Offered > then {
			d.Rate = *link.PathMbit * 1e6
		}
		list = append(list, d)
	}
	return list
}

// DemandsFrom returns the demands of the mirrors here of a host's channels, as DemandsOf does.
func DemandsFrom(before, after status.Report, host string, apart time.Duration, rate ui.BitRate) (list []Demand) {
	link, _ := LinkOf(after, host)
	for _, m := range after.Mirrors {
		if then, known := MirrorOf(before, host, m.Channel); m.Host == host && known {
			list = append(list, Demand{
				What: m.Name, Bytes: m.Bytes, Every: m.QoS.Mode == rule.Every, Budget: m.QoS.EffectiveBudget(), Rate: float64(rate),
				Hz:    Limited(float64(less(m.Offered, then.Offered))/apart.Seconds(), m.QoS.MaxRate),
				delay: time.Duration(link.RTTms / 2 * float64(time.Millisecond)),
			})
		}
	}
	return list
}

// Limited returns a frame rate after the limit of max_rate, if that is set.
func Limited(hz float64, most rule.Rate) float64 {
	if most != 0 && (hz == 0 || hz > most.Hz()) {
		return most.Hz()
	}
	return hz
}

// A demand must fail unfitFor times in a row before it is reported, and at most mostUnfit
// demands are reported at a time.
const (
	unfitFor  = 3
	mostUnfit = 1000
)

// Unfit returns the problems to report; seen counts how many times in a row each demand
// could not be met.
func Unfit(seen map[string]int, demands []Demand) (list []string) {
	for _, d := range demands {
		key, text := fmt.Sprint(d.What, d.Budget, d.Every), d.Problem()
		switch {
		case text == "" && seen[key] < unfitFor:
			delete(seen, key)
		case text != "" && len(seen) < mostUnfit:
			if seen[key]++; seen[key] == unfitFor {
				list = append(list, text)
			}
		}
	}
	return list
}
