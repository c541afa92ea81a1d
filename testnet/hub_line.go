package testnet

import "time"

// hubLine is one direction of a connection to a hub. Its state is under hub.mu.
type hubLine struct {
	hub    *Hub
	params Params
	free   time.Time // when all that was sent has left
	last   time.Time // when the last of it arrives
	queue  []hubParcel
	timer  *time.Timer
	held   bool
}

// hubParcel is a message under way.
type hubParcel struct {
	at     time.Time
	arrive func()
}

// send has arrive called, with mu held, when size bytes have arrived behind those before.
func (l *hubLine) send(size int, arrive func()) {
	now := time.Now()
	if l.free.Before(now) {
		l.free = now
	}
	if l.params.Rate > 0 {
		l.free = l.free.Add(time.Duration(int64(size+hubOverhead) * 8 * int64(time.Second) / l.params.Rate))
	}
	if at := l.free.Add(l.params.Delay); at.After(l.last) {
		l.last = at
	}
	l.queue = append(l.queue, hubParcel{l.last, arrive})
	if len(l.queue) == 1 {
		l.arm()
	}
}

// opens is when a message can leave at once; zero: now.
func (l *hubLine) opens() time.Time {
	if !l.free.After(time.Now()) {
		return time.Time{}
	}
	return l.free
}

// arm sets the timer for the first of the queue.
func (l *hubLine) arm() {
	if l.timer != nil {
		l.timer.Stop()
	}
	if len(l.queue) == 0 || l.held {
		return
	}
	l.timer = time.AfterFunc(time.Until(l.queue[0].at), func() {
		l.hub.mu.Lock()
		defer l.hub.mu.Unlock()
		l.deliver()
	})
}

// deliver hands over what has arrived, in order.
func (l *hubLine) deliver() {
	for len(l.queue) > 0 && !l.held && !l.queue[0].at.After(time.Now()) {
		first := l.queue[0]
		l.queue = l.queue[1:]
		first.arrive()
	}
	l.arm()
}

func (l *hubLine) hold(held bool) {
	l.held = held
	l.arm()
}

// clear loses what is under way.
func (l *hubLine) clear() {
	l.queue, l.free = nil, time.Time{}
	l.arm()
}
