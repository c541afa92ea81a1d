package bridge

import (
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
	space               *space
	adopt               []string
	log                 *slog.Logger
	spawn               func(func()) // starts a goroutine that the node waits for

	// These belong to the node's goroutine.
	link   *link // that feeds it now
	subID  uint32
	origin wire.Channel // as the link's catalog has it
	from   source       // zero before the first subscription
	retry  time.Duration
	run    uint64          // life of the peer's daemon that captured counts in
	rivals map[string]bool // channels that wanted this name too, and were named in the log
	looked time.Duration   // when trouble with the file was last dealt with; 0: never

	mu       sync.Mutex
	state    string
	reason   string
	failure  string // of the last put; empty when it was good
	ch       *localach.Channel
	w        *localach.Writer
	tag      localach.Tag  // Seq is the newest frame that the file holds
	least    uint64        // newest frame of a file that was replaced: older ones are not put
	owned    bool          // we made the file and may replace it
	owed     bool          // the file lacks the newest frame that came
	captured time.Duration // of the newest frame, by the peer's clock; 0 unknown
	putSeq   uint64        // what our last put returned
	pending  kept
	waiting  bool // retryPut works on pending
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

// expect prepares for frames of life epoch of the origin and returns the last
// one of it that the mirror holds; 0 when it holds none.
func (m *mirror) expect(epoch uint64) (have uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tag.Epoch != epoch {
		m.forget(epoch)
	}
	return m.tag.Seq
}

// changeClock forgets a capture time that counts in the life of another daemon.
func (m *mirror) changeClock(run uint64) {
	if m.run == run {
		return
	}
	m.run = run
	m.mu.Lock()
	defer m.mu.Unlock()
	m.captured, m.pending.captured = 0, 0
}

// forget needs m.mu. It begins a life of the origin of which nothing is here.
func (m *mirror) forget(epoch uint64) {
	m.tag.Epoch, m.tag.Seq, m.least, m.captured = epoch, 0, 0, 0
	m.pending.seq = 0
}

// begin takes the origin's word that frames of life epoch come now, the newest
// being last. False means that we told it, when we asked, of a later frame than
// that, have: then the mirror forgets what it knows of that life. What it holds
// by now does not count, since frames may overtake the origin's word.
func (m *mirror) begin(epoch, last, have uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tag.Epoch == epoch && max(have, m.least) > last {
		m.forget(epoch)
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
		return
	case seq <= max(m.tag.Seq, m.pending.seq) || seq < m.least:
		m.count.Duplicate++
		return
	case m.waiting:
		if m.pending.seq != 0 {
			m.count.Superseded++
		}
		m.pending.keep(seq, captured, frame)
		return
	}
	switch err := m.write(seq, captured, frame); {
	case isBusy(err):
		m.pending.keep(seq, captured, frame)
		m.waiting = true
		m.spawn(m.retryPut)
	case err != nil:
		m.fail(err)
	}
}

// write puts a frame, into a larger file if it does not fit. ErrBusy says that
// somebody holds the lock: then nothing has happened. Needs m.mu.
func (m *mirror) write(seq uint64, captured time.Duration, frame []byte) error {
	if len(frame) > m.ch.Geometry().FrameSize {
		if err := m.replace("a frame does not fit", len(frame)); err != nil {
			return err
		}
	}
	put, err := m.w.TryPut(frame)
	if err != nil {
		return err
	}
	if put != m.putSeq+1 && m.putSeq != 0 {
		if m.foreign++; m.foreign == 1 {
			m.log.Warn("somebody else writes into a mirror", "channel", m.name, "peer", m.host)
		}
	}
	m.putSeq, m.captured = put, captured
	m.tag.Seq, m.owed = seq, false
	m.mark()
	m.count.Delivered++
	if m.failure != "" {
		m.failure, m.reason = "", ""
	}
	return nil
}

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
