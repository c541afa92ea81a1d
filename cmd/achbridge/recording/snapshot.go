package recording

import (
	"context"
	"errors"
	"io"
	"maps"
	"time"

	"achbridge/cmd/achbridge/recording/snapshots"
)

// Snapshot is the result of writing a snapshot.
type Snapshot struct {
	Path     string // empty if no file was created, or the caller wrote it
	Reason   string // text of the trigger that began it
	Bytes    int64
	Frames   uint64
	Channels int
	Lost     uint64    // messages that left the memory before they were written, since the disk or the reader was too slow
	From     time.Time // time of its first message; zero if it has none
	Until    time.Time // end of the time that it covers
	Err      error     // why it ended early. The file has whole chunks up to there.

	stored int64 // log time of the last message that is in the file, at least
}

// snapshotReader is a snapshot that is being written. Its fields are guarded by MemoryRecorder.mu, apart from firedAt and
// reason, which do not change.
type snapshotReader struct {
	at         snapshots.Position
	firedAt    int64 // log time of the trigger that began it; 0 if there was none
	isOfClient bool  // it is abandoned when its context ends
	reason     string
	from       int64 // log time of its beginning. While the snapshot of a trigger is not closed, MemoryRecorder.spans has both times.
	until      int64
	closed     bool              // from and until do not change any more
	shift      int64             // wall-clock time less log time when the snapshot began, ns; the file has wall-clock times
	topics     map[uint32]*Topic // topics with shifted stamps, by their number; only its goroutine uses it
}

// settle is the time after which a frame that was read is in memory, even if this process has to wait for a CPU.
const settle = 100 * time.Millisecond

// copyAtOnce limits the bytes that a snapshot copies out of the memory at once, while the recorder waits.
const copyAtOnce = 1 << 20

// Snapshot writes the messages of the last time before, and those of the time after, into out as an MCAP file. It blocks
// for the time after. If out is slow, messages that have left the memory are counted as lost. It returns an error if
// ctx ends before.
func (f *MemoryRecorder) Snapshot(ctx context.Context, out io.Writer, before, after time.Duration) (Snapshot, error) {
	now := f.r.now()
	reader := &snapshotReader{isOfClient: true, from: now - int64(before), until: now + int64(after), shift: f.clock().UnixNano() - now}
	f.mu.Lock()
	reader.at = f.ring.Since(reader.from)
	f.readers[reader] = struct{}{}
	f.mu.Unlock()
	defer f.forget(reader)
	s := Snapshot{}
	w, err := newWriterTo(out, f.facts(reader))
	if err != nil {
		return s, err
	}
	defer w.abandon()
	if err = f.copyTo(ctx, w, reader, &s, func() error { return nil }); err == nil {
		s.Bytes, err = w.close()
	}
	return s, err
}

func (f *MemoryRecorder) facts(reader *snapshotReader) map[string]string {
	facts := maps.Clone(f.cfg.Facts)
	facts["started"] = f.clock().UTC().Format(time.RFC3339Nano)
	if reader.reason != "" {
		facts["trigger"] = reader.reason
	}
	return facts
}

func (f *MemoryRecorder) forget(reader *snapshotReader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.readers, reader)
}

var errEnded = errors.New("the recorder has ended")

// copyTo writes the messages of a snapshot until its end, and calls check after each batch of them. It returns the
// first error of check. When the recorder ends, the snapshot ends too, with the messages in memory.
func (f *MemoryRecorder) copyTo(ctx context.Context, w *writer, reader *snapshotReader, s *Snapshot, check func() error) error {
	var b batch
	channels := map[string]bool{}
	defer func() { s.Channels = len(channels) }()
	for {
		var more <-chan struct{}
		b, more = f.take(reader, s, batch{b.data[:0], b.items[:0]}, ctx.Err() != nil)
		err := b.each(func(i item, data []byte) error {
			if i.topic == nil {
				return w.text(i.own, i.message(data))
			}
			s.Frames++
			channels[i.topic.Channel] = true
			return w.frame(*i.topic, i.message(data))
		})
		if err == nil && w.due(time.Now(), chunkEvery) {
			err = w.flush()
		}
		if err == nil {
			err = check()
		}
		if n := len(b.items); err == nil && n > 0 && w.chunkBeganAt.IsZero() {
			s.stored = b.items[n-1].log - reader.shift
		}
		if err != nil || more == nil && len(b.items) == 0 {
			return err
		}
		if more == nil {
			continue
		}
		select {
		case <-more:
		case <-ctx.Done():
			if reader.isOfClient {
				return ctx.Err()
			}
		case <-f.hasEnded:
			return errEnded
		}
	}
}

// take appends the next messages of a snapshot to b. If there are none yet, more is closed when there may be. If more is
// nil and b is empty, the snapshot has ended. isLast means that the snapshot ends with the messages in memory.
func (f *MemoryRecorder) take(reader *snapshotReader, s *Snapshot, b batch, isLast bool) (_ batch, more <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !reader.closed && reader.firedAt != 0 {
		reader.from, reader.until = f.spans.Span()
	}
	if !reader.closed && (isLast || f.complete >= reader.until+int64(settle)) {
		reader.closed = true
		if isLast {
			reader.until = min(reader.until, f.r.now())
		}
		f.closeSpan(reader, reader.until)
	}
	s.Until = time.Unix(0, reader.until+reader.shift)
	for len(b.data) < copyAtOnce {
		m, next, lost, ok := f.ring.Next(reader.at)
		if ok && m.Log >= reader.until && (!reader.closed || m.Log >= reader.until+int64(settle)) {
			ok = false // it may belong to the snapshot, if a trigger extends it; or everything was read
		}
		if !ok {
			break
		}
		reader.at = next
		s.Lost += lost
		if m.Log < reader.from || m.Log >= reader.until {
			continue
		}
		if s.From.IsZero() {
			s.From = time.Unix(0, m.Log+reader.shift)
		}
		t := f.topics[m.Topic]
		b.data = append(b.data, m.Data...)
		b.items = append(b.items, item{
			topic: reader.topic(m.Topic, t.topic), own: t.own, seq: m.Seq, log: m.Log + reader.shift, publish: m.Publish + reader.shift, size: len(m.Data),
		})
	}
	if len(b.items) > 0 || reader.closed && (isLast || f.complete >= reader.until+int64(settle)) {
		return b, nil
	}
	return b, f.more
}

// topic returns a topic of frames as it is in the file: the clock of its stamps is relative to the file's times.
func (r *snapshotReader) topic(number uint32, t *Topic) *Topic {
	if t == nil || t.Stamps.Rule == "" {
		return t
	}
	if r.topics[number] == nil {
		shifted := *t
		shifted.Stamps.Clock -= time.Duration(r.shift)
		if r.topics == nil {
			r.topics = map[uint32]*Topic{}
		}
		r.topics[number] = &shifted
	}
	return r.topics[number]
}

// closeSpan ends the running snapshot of triggers if it is that of reader. until is the log time up to which its messages
// are in the file. f.mu must be held.
func (f *MemoryRecorder) closeSpan(reader *snapshotReader, until int64) {
	if f.open == reader {
		f.open = nil
		f.spans.End(until)
	}
}
