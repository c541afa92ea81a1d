package recording

import (
	"sync"
	"time"

	"github.com/foxglove/mcap/go/mcap"
)

// queue is what was read and is not written yet. The reader never waits for the disk:
// when the queue is full it leaves frames in their rings, where newer ones replace them.
type queue struct {
	mu      sync.Mutex
	filling batch
	full    bool          // somebody waits for room
	ready   chan struct{} // there is much to write
	taken   chan struct{} // there is room again
}

// batch is a number of frames, one behind the other.
type batch struct {
	data  []byte
	items []item
}

// item is a frame, or a drop if topic is nil.
type item struct {
	topic        *Topic
	seq          uint64
	log, publish int64 // ns since 1970
	size         int   // of its bytes in data
	drop         Drop
}

// maxWaiting is how many bytes may wait to be written, twice: while one batch is
// written another fills.
const maxWaiting = 64 << 20

// The writer takes what there is after takeEvery, or when it is takeAt bytes.
const (
	takeEvery = 20 * time.Millisecond
	takeAt    = 8 << 20
)

func newQueue() *queue {
	return &queue{ready: make(chan struct{}, 1), taken: make(chan struct{}, 1)}
}

// isFull reports whether a frame of size bytes has to stay in its ring. One finds room in
// an empty queue however large it is.
func (q *queue) isFull(size int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.full = len(q.filling.data) > 0 && len(q.filling.data)+size > maxWaiting
	return q.full
}

// add takes a copy of data.
func (q *queue) add(i item, data []byte) {
	q.mu.Lock()
	i.size = len(data)
	q.filling.data = append(q.filling.data, data...)
	q.filling.items = append(q.filling.items, i)
	much := len(q.filling.data) >= takeAt
	q.mu.Unlock()
	if much {
		poke(q.ready)
	}
}

// take gives what has come, for an old batch that is filled next.
func (q *queue) take(old batch) batch {
	if cap(old.data) > maxWaiting {
		old.data = nil // a larger frame has grown it
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	b := q.filling
	q.filling = batch{old.data[:0], old.items[:0]}
	if q.full {
		q.full = false
		poke(q.taken)
	}
	return b
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// write has the files take what was read, until the reader has ended.
func (r *recorder) write(out *files, ended <-chan struct{}) (err error) {
	defer func() {
		if err != nil {
			out.fail()
		}
	}()
	tick := time.NewTicker(takeEvery)
	defer tick.Stop()
	var b batch
	for {
		last := false
		select {
		case <-r.queue.ready:
		case <-tick.C:
		case <-ended:
			last = true
		}
		b = r.queue.take(b)
		if err := b.write(out); err != nil {
			return err
		}
		if err := out.flush(); err != nil {
			return err
		}
		if last {
			return out.close()
		}
	}
}

func (b batch) write(out *files) error {
	at := 0
	for _, i := range b.items {
		if i.topic == nil {
			if err := out.drop(uint64(i.log), i.drop); err != nil {
				return err
			}
			continue
		}
		data := b.data[at : at+i.size]
		at += i.size
		m := mcap.Message{Sequence: uint32(i.seq), LogTime: uint64(i.log), PublishTime: uint64(i.publish), Data: data}
		if err := out.frame(*i.topic, m); err != nil {
			return err
		}
	}
	return nil
}
