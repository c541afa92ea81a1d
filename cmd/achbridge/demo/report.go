package demo

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Report has the results of a demo. `demo --json` prints it.
type Report struct {
	Channels []channelFigures `json:"channels"`
	UDPLoop  quantiles        `json:"udp_loop_ms"`
	// Wait is the mean share of the time, 0 … 1, for which a thread of this process waited for a CPU. The daemons run in this
	// process.
	Wait     float64 `json:"processor_wait"`
	OK       bool    `json:"ok"` // true if Fault returns nil
	tooShort bool    // the demo was shorter than enoughTime
}

// channelFigures has the results of one channel.
type channelFigures struct {
	Channel   string  `json:"channel"`
	Sent      uint64  `json:"sent"`
	Delivered uint64  `json:"delivered"`
	Age       ageInMs `json:"age_ms"`
	backwards uint64
}

type ageInMs struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// measured reports whether the demo was long enough for a sample.
func (a ageInMs) measured() bool { return a.Max > 0 }

type quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

const (
	// enough is the share of frames that arrive at least on a machine with idle CPUs.
	enough = 0.9
	// busy is the least Report.Wait that can explain missing frames.
	busy = 0.1
	// lostPerWait is the largest share of missing frames that Report.Wait explains, as a multiple of it. It is above 1, since each
	// frame passes several threads.
	lostPerWait = 2
	// enoughTime is the length of the shortest demo in which missing frames are judged. A shorter demo puts too few frames, and
	// measures Report.Wait too coarsely.
	enoughTime = time.Second
)

func (f channelFigures) share() float64 { return float64(f.Delivered) / float64(max(1, f.Sent)) }

// isMissing reports whether more frames did not arrive than on a machine with idle CPUs.
func (f channelFigures) isMissing() bool { return f.Sent > 0 && f.share() < enough }

// sent returns the number of frames that were put.
func (r Report) sent() (n uint64) {
	for _, f := range r.Channels {
		n += f.Sent
	}
	return n
}

// share returns the share of all frames that arrived.
func (r Report) share() float64 {
	all := channelFigures{Sent: r.sent()}
	for _, f := range r.Channels {
		all.Delivered += f.Delivered
	}
	return all.share()
}

// explains reports whether the wait for a CPU explains the missing frames of a channel.
func (r Report) explains(f channelFigures) bool {
	return r.Wait >= busy && 1-f.share() <= lostPerWait*r.Wait
}

// Fault returns an error for a result that shows a fault of achbridge: an older frame after a newer one, a channel without frames, or
// more missing frames than a busy machine explains.
func (r Report) Fault() error {
	if r.sent() == 0 {
		return errors.New("no frame was put")
	}
	for _, f := range r.Channels {
		switch {
		case f.backwards > 0:
			return fmt.Errorf("mirror of %s: an older frame came after a newer one %d times", f.Channel, f.backwards)
		case f.Sent > 0 && f.Delivered == 0:
			return fmt.Errorf("mirror of %s: none of %d frames arrived", f.Channel, f.Sent)
		case f.isMissing() && !r.tooShort && !r.explains(f):
			return fmt.Errorf("mirror of %s: only %.0f %% of the frames arrived, and the daemons waited for a CPU %.0f %% of the time", f.Channel, 100*f.share(), 100*r.Wait)
		}
	}
	return nil
}

// Show prints the results.
func (r Report) Show(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-12s %9s %9s %9s %9s %9s\n", "CHANNEL", "SENT", "ARRIVED", "MEAN ms", "P99 ms", "MAX ms")
	for _, c := range r.Channels {
		fmt.Fprintf(&b, "%-12s %9d %9d", c.Channel, c.Sent, c.Delivered)
		for _, ms := range []float64{c.Age.Mean, c.Age.P99, c.Age.Max} {
			cell := "-"
			if c.Age.measured() {
				cell = fmt.Sprintf("%.2f", ms)
			}
			fmt.Fprintf(&b, " %9s", cell)
		}
		fmt.Fprintln(&b)
	}
	fmt.Fprintf(&b, "\nThe age of a mirror is the age of its newest frame, sampled by a reader of its own. A bare UDP packet over\n"+
		"loopback took %.3f ms (p50), %.3f ms (p99) at the same time.\n", r.UDPLoop.P50, r.UDPLoop.P99)
	fmt.Fprintln(&b, r.summary())
	_, err := io.WriteString(out, b.String())
	return err
}

// summary describes in one line what the demo showed.
func (r Report) summary() string {
	if r.sent() == 0 {
		return "Shown: nothing, since no frame was put."
	}
	text := fmt.Sprintf("Shown: %d channels of a robot, mirrored on a PC over an encrypted link: %.4g %% of %d frames arrived",
		len(r.Channels), 100*r.share(), r.sent())
	if first := r.Channels[0]; first.Age.measured() {
		text += fmt.Sprintf(", and %s was %.2f ms old on average", first.Channel, first.Age.Mean)
	}
	text += "."
	switch {
	case !slices.ContainsFunc(r.Channels, channelFigures.isMissing) || r.Fault() != nil:
	case r.tooShort:
		text += fmt.Sprintf("\nA demo shorter than %.0f s does not judge how many frames are missing.", enoughTime.Seconds())
	default:
		text += fmt.Sprintf("\nThis machine is busy: %.0f %% of the frames arrived; the daemons waited for a CPU %.0f %% of the time.", 100*r.share(), 100*r.Wait)
	}
	return text
}
