package hub

import "time"

const (
	mostInlet = mostWindow
	// inletRound is at least how many bytes of a frame are looked at.
	inletRound = 2 * segment
)

// inlet decides how many bytes the hub may have on their way here that this host has not acknowledged, on the connection of
// large frames: what the path carries in its shortest round trip, and one segment. Hubs write as much as the
// receiver has room for; more than that would wait on a thin path, and small frames behind it. While small frames come it is
// without that segment. It is pure.
type inlet struct {
	size  int
	aside bool    // small frames come, too
	rate  float64 // bytes a second, the best of the last rounds
	began time.Duration
	got   int // since began
}

func newInlet() inlet { return inlet{size: firstWindow} }

// take takes n bytes that came now, over a path with this shortest round trip. More of a message is to come after
// them, so that the hub had something to send all the time. It is true when a round has ended.
func (i *inlet) take(n int, now, least time.Duration) bool {
	if i.began == 0 {
		i.began, i.got = now, 0
		return false
	}
	i.got += n
	if i.got < i.size || now <= i.began {
		return false
	}
	i.end(now, least)
	i.began, i.got = now, 0
	return true
}

// pause says that nothing more is to come for now. It is true when a round has ended.
func (i *inlet) pause(now, least time.Duration) bool {
	whole := i.began > 0 && i.got >= inletRound && now > i.began
	if whole {
		i.end(now, least)
	}
	i.began = 0
	return whole
}

func (i *inlet) end(now, least time.Duration) {
	took := now - i.began
	i.rate = max(float64(i.got)/took.Seconds(), i.rate*rateFades)
	gain := 1.0
	if took <= least*5/4+leastBase {
		gain = 1.5
	}
	i.size = int(gain * i.rate * max(least, leastBase).Seconds())
	if !i.aside {
		i.size = max(i.size, segment) + segment // the one keeps the path busy while the other is acknowledged
	}
	i.size = min(max(i.size, segment), mostInlet)
}
