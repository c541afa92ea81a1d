package recording

import (
	"sync"
	"time"

	"github.com/foxglove/mcap/go/mcap"
)

// queue holds the frames that were read and are not written yet. The reader never waits for
// the disk: when the queue is full, it leaves frames in their rings, where newer frames
// replace them.
type queue struct {
	mu      sync.Mutex
	filling batch
	full    bool          // the reader waits for room
	ready   chan struct{} // takeAt bytes wait to be written
	hasRoom chan struct{} // there is room again
}

// batch has the data of several frames in one buffer.
type batch struct {
	data  []byte
	items []item
}

// item is a frame, or a text of a topic of our own if topic is nil.
type item struct {
	topic        *Topic
	own          *ownTopic
	seq          uint64
	log, publish int64 // ns since 1970
	size         int   // size of the frame or the text in data, bytes
}

// output stores batches of recorded frames. Its caller is one goroutine.
type output interface {
	add(b batch) error // add does not keep the batch
	flush() error      // flush is called regularly
	close() error
	fail() // fail is called in place of close after an error
}

// maxWaiting is how many bytes of frames may wait to be put, or to be written in a batch. There are two batches: while one is
// written, the other fills.
const maxWaiting = 64 << 20

// The writer takes the batch every takeEvery, and sooner when it has takeAt bytes.
const (
	takeEvery = 20 * time.Millisecond
	takeAt    = 8 << 20
)

func newQueue() *queue {
	return &queue{ready: make(chan struct{}, 1), hasRoom: make(chan struct{}, 1)}
}

// isFull reports whether a frame of size bytes has no room. An empty queue has room for a
// frame of any size.
func (q *queue) isFull(size int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.full = len(q.filling.data) > 0 && len(q.filling.data)+size > maxWaiting
	return q.full
}

// add appends a frame; it copies data.
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

// take returns the present batch. The queue fills old, a batch that was written, next.
func (q *queue) take(old batch) batch {
	if cap(old.data) > maxWaiting {
		old.data = nil // a large frame has made the buffer too large to keep
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	b := q.filling
	q.filling = batch{old.data[:0], old.items[:0]}
	if q.full {
		q.full = false
		poke(q.hasRoom)
	}
	return b
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// write writes the queue's batches to the output, until the reader has ended.
func (r *recorder) write(out output, ended <-chan struct{}) (err error) {
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
		if err := out.add(b); err != nil {
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

// each calls f with each item and its data, and returns the first error of f.
func (b batch) each(f func(i item, data []byte) error) error {
	at := 0
	for _, i := range b.items {
		if err := f(i, b.data[at:at+i.size]); err != nil {
			return err
		}
		at += i.size
	}
	return nil
}

// message returns an item as a message of MCAP, without its channel.
func (i item) message(data []byte) mcap.Message {
	return mcap.Message{Sequence: uint32(i.seq), LogTime: uint64(i.log), PublishTime: uint64(i.publish), Data: data}
}
