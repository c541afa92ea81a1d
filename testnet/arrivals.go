package testnet

import (
	"cmp"
	"container/heap"
	"time"
)

// Indexes of the random numbers that are drawn for each packet.
const (
	drawLoss = iota
	drawJitter
	drawDuplicate
	drawSecond
	drawReorder
	drawReorderDelay
	draws
)

type packet[T any] struct {
	order         uint64
	size          int
	start, depart time.Duration
	draws         [draws]float64
	outcome       Outcome // Arrives, Twice or Lost
	reordered     bool    // delayed on the wire, so that later packets overtake it
	tries         int     // attempts in the air
	passedAir     bool    // an attempt in the air succeeded
	lostInAir     bool    // all attempts in the air failed
	payload       T
}

type arrival[T any] struct {
	at     time.Duration
	packet *packet[T]
	copy   bool // the second copy of a duplicated packet
}

// arrivals is a heap ordered by time, then by order of sending.
type arrivals[T any] []arrival[T]

func (a arrivals[T]) Len() int      { return len(a) }
func (a arrivals[T]) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *arrivals[T]) Push(x any)   { *a = append(*a, x.(arrival[T])) }

func (a arrivals[T]) Less(i, j int) bool {
	order := cmp.Or(cmp.Compare(a[i].at, a[j].at), cmp.Compare(a[i].packet.order, a[j].packet.order))
	return order < 0 || order == 0 && !a[i].copy && a[j].copy
}

func (a *arrivals[T]) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	(*a)[last] = arrival[T]{}
	*a = (*a)[:last]
	return x
}

// departed returns the heap without packets that have not left the transmitter by now.
func (a arrivals[T]) departed(now time.Duration) arrivals[T] {
	kept := a[:0]
	for _, x := range a {
		if x.packet.depart <= now {
			kept = append(kept, x)
		}
	}
	clear(a[len(kept):])
	heap.Init(&kept)
	return kept
}
