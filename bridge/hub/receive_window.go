package hub

import "time"

// receiveRound is the smallest number of bytes of a frame that gives a measurement.
const receiveRound = 2 * segment

// receiveWindow decides how many unacknowledged bytes the hub may have in transit to this host on the
// connection of large frames. They are the bytes that the path carries in its shortest round trip,
// and one segment. Hubs fill the receiver's window. With a larger window data would wait on a thin
// path, and small frames behind it. While small frames arrive too, the extra segment is omitted.
// The type is pure: it has no clock and no I/O.
type receiveWindow struct {
	size     int
	hasSmall bool    // small frames arrive too
	rate     float64 // bytes/s, the largest of the last rounds
	began    time.Duration
	got      int // bytes received since began
}

func newReceiveWindow() receiveWindow { return receiveWindow{size: firstWindow} }

// take handles n bytes that arrived at now. least is the path's shortest round trip. More of the
// message follows, so the hub was sending all the time. take returns true when a round has ended.
func (i *receiveWindow) take(n int, now, least time.Duration) bool {
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

// pause handles the end of a message. It returns true when a round has ended.
func (i *receiveWindow) pause(now, least time.Duration) bool {
	whole := i.began > 0 && i.got >= receiveRound && now > i.began
	if whole {
		i.end(now, least)
	}
	i.began = 0
	return whole
}

func (i *receiveWindow) end(now, least time.Duration) {
	took := now - i.began
	i.rate = max(float64(i.got)/took.Seconds(), i.rate*rateFades)
	gain := 1.0
	if took <= least*5/4+leastBase {
		gain = 1.5
	}
	i.size = int(gain * i.rate * max(least, leastBase).Seconds())
	if !i.hasSmall {
		i.size = max(i.size, segment) + segment // one segment is in transit while the other is being acknowledged
	}
	i.size = min(max(i.size, segment), mostWindow)
}
