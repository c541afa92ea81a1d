package bridge

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"achbridge/localach"
	"achbridge/wire"
)

// mirror is the local copy of a channel of another host. The file outlives the
// link and the daemon; its tag says whose it is and which frame it holds, so
// that no frame is put twice and none after a newer one.
type mirror struct {
	name, host, channel string
	dir                 localach.Dir
	adopt               []string
	log                 *slog.Logger
	spawn               func(func()) // starts a goroutine that the node waits for

	// These belong to the node's goroutine.
	link   *link // that feeds it now
	subID  uint32
	origin wire.Channel // as the link's catalog has it
	from   source       // zero before the first subscription
	retry  time.Duration

	mu       sync.Mutex
	state    string
	reason   string
	ch       *localach.Channel
	w        *localach.Writer
	tag      localach.Tag
	owned    bool          // we made the file and may replace it
	captured time.Duration // of the newest frame, by the origin's clock; 0 unknown
	putSeq   uint64        // what our last put returned
	pending  []byte        // newest frame, while the file is locked by somebody
	waiting  bool          // retry works on pending
	pendSeq  uint64
	count    Accounts
	replaced uint64
	foreign  uint64
}

// States of a mirror.
const (
	stateWaiting = "waiting"
	stateLive    = "live"
	stateRefused = "refused"
)

// open makes the mirror's file usable for what c, first put by node, describes:
// its own file is taken up again, a missing one is created; any other is left alone.
func (m *mirror) open(c wire.Channel, node [16]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ch != nil && m.ch.Check() == nil {
		m.tag.Node = node
		return nil
	}
	m.closeFile()
	if err := localach.CheckName(m.name); err != nil {
		return fmt.Errorf("%w; give it another with --as NAME", err)
	}
	id := localach.Tag{Node: node, Channel: channelHash(m.host, m.channel)}
	ch, err := m.dir.TryOpen(m.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		ch, err = m.dir.Create(m.name, localach.CreateConfig{Geometry: geometryOf(c).Grow(), Tag: id})
		m.owned = true
	case err == nil && ch.Tag() == (localach.Tag{}):
		m.owned = false
		if !matches(m.adopt, m.name) {
			ch.Close()
			return fmt.Errorf("%s: there is a channel of that name that is not a mirror; remove it, choose another name with --as, or allow writing into it with --adopt %s", m.name, m.name)
		}
	case err == nil:
		m.owned = true
	case errors.Is(err, localach.ErrCorrupt):
		// A mirror that somebody damaged heals by a new file, but only what is surely ours may be replaced.
		err = fmt.Errorf("%s: %w; remove it with `achbridge channel rm %s`", m.name, err, m.name)
	}
	if err != nil {
		return err
	}
	m.use(ch, id)
	return nil
}

// use needs m.mu.
func (m *mirror) use(ch *localach.Channel, id localach.Tag) {
	m.ch, m.w = ch, ch.Writer()
	m.tag, m.putSeq = ch.Tag(), ch.LastSeq()
	if m.tag.Channel != id.Channel {
		m.tag = id
	}
	m.tag.Node = id.Node
	m.mark()
}

// expect prepares for frames of life epoch of the origin and returns the last
// one of it that the mirror holds, at most limit; 0 when it holds none.
func (m *mirror) expect(epoch, limit uint64) (have uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tag.Epoch != epoch || m.tag.Seq > limit {
		m.tag.Epoch, m.tag.Seq, m.captured = epoch, 0, 0
	}
	return m.tag.Seq
}

// begin takes the origin's word that frames of life epoch come now, the newest
// being last; false when the mirror is ahead of that.
func (m *mirror) begin(epoch, last uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tag.Epoch == epoch && m.tag.Seq > last {
		return false
	}
	m.state, m.reason = stateLive, ""
	return true
}

// put brings a frame into the mirror unless it holds something newer. It
// waits for nobody: if a local reader sits on the lock, the newest frame is
// kept and put as soon as the lock is free.
func (m *mirror) put(epoch, seq uint64, captured time.Duration, frame []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.w == nil || epoch != m.tag.Epoch:
		m.count.Refused++
	case seq <= m.tag.Seq:
		m.count.Duplicate++
	case m.waiting:
		m.count.Superseded++
		m.keep(seq, captured, frame)
	default:
		m.write(seq, captured, frame)
	}
}

// write needs m.mu.
func (m *mirror) write(seq uint64, captured time.Duration, frame []byte) {
	if len(frame) > m.ch.Geometry().FrameSize {
		if err := m.replace("a frame does not fit", len(frame)); err != nil {
			m.fail(err)
			return
		}
	}
	put, err := m.w.TryPut(frame)
	switch {
	case errors.Is(err, localach.ErrBusy):
		m.keep(seq, captured, frame)
		m.waiting = true
		m.spawn(m.retryPut)
		return
	case err != nil:
		m.fail(err)
		return
	}
	if put != m.putSeq+1 && m.putSeq != 0 {
		if m.foreign++; m.foreign == 1 {
			m.log.Warn("somebody else writes into a mirror", "channel", m.name, "peer", m.host)
		}
	}
	m.putSeq, m.captured = put, captured
	m.tag.Seq = seq
	m.mark()
	m.count.Delivered++
}

// mark writes into a file of ours what its newest frame is. Needs m.mu.
func (m *mirror) mark() {
	if m.owned {
		m.ch.SetTag(m.tag)
	}
}

// keep needs m.mu.
func (m *mirror) keep(seq uint64, captured time.Duration, frame []byte) {
	m.pending = append(m.pending[:0], frame...)
	m.pendSeq, m.captured = seq, captured
	m.tag.Seq = seq // older ones are duplicates from now on
}

// retryPut puts the pending frame as soon as the lock is free; newer frames
// replace it meanwhile.
func (m *mirror) retryPut() {
	for {
		m.mu.Lock()
		w := m.w
		if w == nil || m.pendSeq == 0 {
			m.waiting = false
			m.mu.Unlock()
			return
		}
		put, err := w.TryPut(m.pending)
		if err == nil {
			m.putSeq = put
			m.mark()
			m.count.Delivered++
		}
		if !isBusy(err) {
			m.pendSeq, m.waiting = 0, false
			if err != nil {
				m.fail(err)
			}
			m.mu.Unlock()
			return
		}
		m.mu.Unlock()
		time.Sleep(busyRetry)
	}
}

// busyRetry is how often a mirror whose lock is taken is tried again.
const busyRetry = time.Millisecond

// gaveUp counts a large frame that a newer one replaced before it was complete.
func (m *mirror) gaveUp() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count.Lost++
}

// refuse says why there is no mirror.
func (m *mirror) refuse(reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.reason = stateRefused, reason
}

// unbind says that nobody feeds the mirror now.
func (m *mirror) unbind(reason string) {
	m.link = nil
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.reason = stateWaiting, reason
}

// fail needs m.mu. The node's next look opens the file again.
func (m *mirror) fail(err error) {
	m.count.Refused++
	if m.reason == err.Error() {
		return
	}
	m.reason = err.Error()
	m.log.Error("put into mirror failed", "channel", m.name, "err", err)
}

// replace needs m.mu. It puts a new file with room for frames of size bytes
// into the place of the mirror's and makes the old one CORRUPT for those who
// have it open, so that they get an error and not silence.
func (m *mirror) replace(why string, size int) error {
	if !m.owned {
		return fmt.Errorf("%s: %s, and the channel is not ours to replace; make it larger", m.name, why)
	}
	old, oldWriter := m.ch, m.w
	g := old.Geometry()
	g.FrameSize = max(g.FrameSize, size)
	info, err := old.Stat()
	if err != nil {
		return err
	}
	ch, err := m.dir.Create(m.name, localach.CreateConfig{Geometry: g.Grow(), Mode: info.Mode.Perm(), Replace: true, Tag: m.tag})
	if err != nil {
		return err
	}
	m.ch, m.w, m.putSeq = ch, ch.Writer(), 0
	m.replaced++
	m.log.Warn("mirror replaced", "channel", m.name, "peer", m.host, "cause", why)
	m.spawn(func() {
		old.Poison()
		oldWriter.Close()
		old.Close()
	})
	return nil
}

// closeFile needs m.mu.
func (m *mirror) closeFile() {
	if m.w == nil {
		return
	}
	w, ch := m.w, m.ch
	m.w, m.ch = nil, nil
	m.spawn(func() {
		w.Close()
		ch.Close()
	})
}

func (m *mirror) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closeFile()
}

func geometryOf(c wire.Channel) localach.Geometry {
	return localach.Geometry{FrameCount: c.FrameCount, FrameSize: c.FrameSize}
}

// channelHash tells in a mirror's tag which channel it is of.
func channelHash(host, channel string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(host + "/" + channel))
	return h.Sum64()
}
