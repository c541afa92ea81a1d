package testnet

import "time"

// hubLine is one direction of a connection to a hub. All fields are guarded by hub.mu.
type hubLine struct {
	hub         *Hub
	params      Params
	freeAt      time.Time // when all sent messages have been transmitted
	lastArrival time.Time // when the last message arrives
	queue       []hubParcel
	timer       *time.Timer
	isStalled   bool
}

// hubParcel is a message in flight.
type hubParcel struct {
	at     time.Time
	arrive func()
}

// send calls arrive with hub.mu held when a message of size bytes has arrived, after all earlier ones.
func (l *hubLine) send(size int, arrive func()) {
	now := time.Now()
	if l.freeAt.Before(now) {
		l.freeAt = now
	}
	if l.params.Rate > 0 {
		l.freeAt = l.freeAt.Add(time.Duration(int64(size+hubOverhead) * 8 * int64(time.Second) / l.params.Rate))
	}
	if at := l.freeAt.Add(l.params.Delay); at.After(l.lastArrival) {
		l.lastArrival = at
	}
	l.queue = append(l.queue, hubParcel{l.lastArrival, arrive})
	if len(l.queue) == 1 {
		l.arm()
	}
}

// nextFree returns when the next message can be transmitted. The zero Time means now.
func (l *hubLine) nextFree() time.Time {
	if !l.freeAt.After(time.Now()) {
		return time.Time{}
	}
	return l.freeAt
}

// arm sets the timer for the first message in the queue.
func (l *hubLine) arm() {
	if l.timer != nil {
		l.timer.Stop()
	}
	if len(l.queue) == 0 || l.isStalled {
		return
	}
	l.timer = time.AfterFunc(time.Until(l.queue[0].at), func() {
		l.hub.mu.Lock()
		defer l.hub.mu.Unlock()
		l.deliver()
	})
}

// deliver calls arrive for all messages that have arrived, in order.
func (l *hubLine) deliver() {
	for len(l.queue) > 0 && !l.isStalled && !l.queue[0].at.After(time.Now()) {
		first := l.queue[0]
		l.queue = l.queue[1:]
		first.arrive()
	}
	l.arm()
}

func (l *hubLine) stall(on bool) {
	l.isStalled = on
	l.arm()
}

// clear drops all messages in flight.
func (l *hubLine) clear() {
	l.queue, l.freeAt = nil, time.Time{}
	l.arm()
}
