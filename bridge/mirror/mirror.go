package mirror

import (
	"errors"
	"log/slog"
	"os"
	"time"

	"achbridge/bridge/delivery"
	"achbridge/bridge/ledger"
	"achbridge/bridge/lock"
	"achbridge/bridge/operator"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
)

// Config holds the fixed settings of a mirror.
type Config struct {
	Name, Host, Channel string
	Temporary           bool // removed with its last viewer
	Unauthenticated     bool // the sender of its frames is not authenticated, and their age is unknown
	Dir                 localach.Dir
	Mode                rule.FileMode // permissions of new files
	Into                *Mirror       // output of the merge that gets the frames; nil if the mirror is not part of a merge
	IsMerge             bool          // the mirror is the output of a merge: only mirrors with this Into put frames
	Kernel              Kernel        // gets a copy of the mirror; nil means none
	Space               *Space
	Log                 *slog.Logger
	Events              *status.Journal
	Spawn               func(func()) // starts a goroutine for which the node waits
	Clock               Clock
}

// Mirror is the local copy of a channel of another host. Its file outlives the link and the daemon. The file's
// tag names the channel and the newest frame, so that no frame is put twice or out of order. Methods are safe
// for concurrent use. Only PutInOrder waits for other programs.
type Mirror struct {
	Config

	mu              *lock.Mutex[lock.Mirror] // guards the fields below; shared with Into, unless that is nil
	qos             rule.QoS
	source          source
	health          health
	file            file
	deadlineMonitor deadlineMonitor
	stamps          shifting
	frames          frames
	counters        counters
}

// source is the subscription that feeds a mirror, as last set by the node.
type source struct {
	feed   *Feed          // nil before the first subscription
	right  operator.Right // right of the holder of the operator lock; frames of feeds with another grant are not put
	run    uint64         // incarnation of the peer's daemon whose clock gives the capture times
	silent bool           // nothing is received from the host that feeds the mirror
}

// New returns a mirror without an open file. adopt lists patterns of existing channels, not created by
// achbridge, that the mirror may write into.
func New(cfg Config, qos rule.QoS, adopt []string) *Mirror {
	m := &Mirror{Config: cfg, mu: new(lock.Mutex[lock.Mirror]), qos: qos, file: file{adopt: adopt}}
	if m.Into != nil {
		m.mu = m.Into.mu
	}
	return m
}

// SetAdopt changes which existing channels the mirror may write into.
func (m *Mirror) SetAdopt(adopt []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.file.adopt = adopt
}

// Feed identifies one subscription that delivers frames. Mirrors compare it by pointer.
type Feed struct {
	Epoch  uint64         // epoch of the channel
	Run    uint64         // incarnation of the daemon whose clock gives the capture times
	Silent bool           // nothing is received from the host when the subscription begins
	Stamps *StampSource   // nil if the clock of the stamps in the frames is not known
	Grant  operator.Grant // identifies the operator lock for which the frames are accepted; zero without a lock
}

// Subscribe prepares for subscription f; from now on, only frames of f are put. have is the newest frame of the
// epoch that the mirror holds, 0 if none. counted holds the mirror's counters so far.
func (m *Mirror) Subscribe(f *Feed, qos rule.QoS) (have uint64, counted ledger.FrameCounters) {
	m.changeClock(f.Run)
	have, counted = m.expect(f.Epoch, qos)
	m.feedFrom(f)
	m.watchDeadline()
	return have, counted
}

// Holds returns the quality of service that the mirror requests, and the newest frame that it holds.
func (m *Mirror) Holds() (qos rule.QoS, seq uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.qos, m.file.tag.Seq
}

// Newest copies the newest frame of the mirror's file into buf, like localach.Reader.TryNext.
func (m *Mirror) Newest(buf []byte) (int, error) {
	m.mu.Lock()
	ch := m.file.ch
	m.mu.Unlock()
	if ch == nil {
		return 0, os.ErrDeadlineExceeded
	}
	return ch.Reader().TryNext(buf)
}

// Requalify changes the quality of service. It reports whether the mirror must subscribe again, and if not,
// whether the new values must be sent to the origin.
func (m *Mirror) Requalify(qos rule.QoS) (anew, mustSend bool) {
	m.mu.Lock()
	before := m.qos
	if before.Mode == qos.Mode && before != qos {
		m.qos, m.frames.lateness = qos, lateness{} // lateness was measured with the previous budget
	}
	m.mu.Unlock()
	if before.Mode != qos.Mode || before.Stamps != qos.Stamps || before.Meta != qos.Meta && m.accompany(qos) != nil {
		return true, false // the next subscription returns the error of accompany
	}
	m.watchDeadline()
	return false, before.Wire() != qos.Wire()
}

// Permit sets which frames may be put: those of feeds with the right's grant, until its end. The zero Right revokes the
// right of every holder. When Permit returns, no frame without the right will be put, even if it arrived before.
func (m *Mirror) Permit(r operator.Right) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.source.right = r
	if p := &m.frames.pending; p.seq != 0 && !m.isPermitted() {
		p.seq = 0
		m.counters.own.Refused++
	}
}

// errNotHeld means that the sender of a frame does not hold the operator lock.
var errNotHeld = errors.New("its sender does not hold the operator lock any more")

// isPermitted reports whether the operator lock allows the frames of the present feed now. m.mu must be held.
func (m *Mirror) isPermitted() bool {
	s := &m.source
	if s.right.Grant == (operator.Grant{}) { // the usual case, without a lock
		return s.feed == nil || s.feed.Grant == operator.Grant{}
	}
	return s.feed != nil && s.right.Allows(s.feed.Grant, m.Clock.SinceBoot(m.Clock.now()))
}

// expect prepares for a subscription to an epoch of the origin's channel. It returns the newest frame of that
// epoch that the mirror holds, 0 if none, and the mirror's counters so far.
func (m *Mirror) expect(epoch uint64, qos rule.QoS) (have uint64, counted ledger.FrameCounters) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.frames.pending.seq != 0 {
		m.frames.pending.seq = 0 // the subscription sends it again
		m.counters.own.Superseded++
	}
	m.source.feed, m.qos = nil, qos
	m.frames.recent, m.frames.unwritten, m.frames.lateness = delivery.Recent{}, unwritten{}, lateness{}
	m.counters.begin()
	if m.file.tag.Epoch != epoch {
		m.forget(epoch)
	}
	if qos.Mode == rule.Newest && m.file.ch != nil && m.file.ch.LastSeq() == 0 {
		m.file.least, m.file.tag.Seq = max(m.file.least, m.file.tag.Seq), 0 // mode was every: the file lacks the newest frame
	}
	m.resetForeignWriter()
	m.copyToKernel()
	return m.file.tag.Seq, m.counters.own
}

// feedFrom starts accepting the frames of f. Call expect before.
func (m *Mirror) feedFrom(f *Feed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.source.feed, m.source.silent = f, f.Silent
	m.beginShifting(f.Stamps)
	m.writeMetadata()
}

// changeClock drops capture times measured by the clock of another incarnation of the peer's daemon.
func (m *Mirror) changeClock(run uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.source.run == run {
		return
	}
	m.source.run = run
	m.frames.capturedAt, m.frames.pending.captured = 0, 0
	m.frames.pace.Rest()
}

// forget starts an epoch of which the mirror has no frame. m.mu must be held.
func (m *Mirror) forget(epoch uint64) {
	m.file.tag.Epoch, m.file.tag.Seq, m.file.least = epoch, 0, 0
	m.frames.capturedAt, m.frames.grant, m.frames.pace, m.frames.pending.seq = 0, operator.Grant{}, ledger.Pace{}, 0
	m.counters.originUpTo = 0
}

// Begin handles the origin's Subscribed reply: frames of the epoch follow, and last is the newest. have is the
// newest frame when the mirror subscribed. If have is newer than last, the origin was reset: Begin forgets the
// epoch's frames and returns false; subscribe again. It does not use the mirror's current frame, since frames
// may overtake the reply. err is set if the file cannot be created.
func (m *Mirror) Begin(epoch, last, have uint64) (ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file.tag.Epoch == epoch && max(have, m.file.least) > last {
		m.forget(epoch)
		return false, nil
	}
	if err := m.make(); err != nil {
		return false, err
	}
	m.health.enter(live, "", "")
	m.health.refusesSince = 0
	if m.Into != nil {
		m.Into.health.enter(live, "", "")
	}
	m.writeMetadata()
	return true, nil
}

// incoming is a frame to be put now.
type incoming struct {
	seq      uint64
	captured time.Duration
	at       Reading
	late     bool
	data     []byte
}

// write puts a frame, into a larger new file if necessary. If the error says isBusy, nothing has changed, and the
// frame can be put later. On errExpired and errNotHeld it must not be put. m.mu must be held.
func (m *Mirror) write(f incoming) error {
	if !m.isPermitted() {
		return errNotHeld
	}
	data, err := m.shifted(f)
	if err != nil {
		return err
	}
	if err := m.tryPut(f.seq, data); err != nil {
		return err
	}
	m.stamps.hasFormer = false
	if f.late {
		m.frames.lateness.add(f.seq, f.at.Now)
	} else {
		m.frames.lateness = lateness{}
	}
	m.age(f.captured, f.at)
	m.frames.capturedAt, m.frames.putAt, m.frames.grant = f.captured, f.at.Now, m.source.right.Grant
	m.file.tag.Seq, m.frames.unwritten.mustRetransmit = f.seq, f.seq < m.frames.unwritten.seq
	m.fed(!f.late)
	m.notePut(f.captured, f.at)
	return nil
}

// tryPut puts a frame and records that frame seq of the origin is then the newest in the file. m.mu must be
// held.
func (m *Mirror) tryPut(seq uint64, frame []byte) error {
	c := m.channel()
	if len(frame) > dataBytes(c.file.ch.Geometry()) {
		if err := c.replace("a frame does not fit", len(frame)); err != nil {
			return err
		}
	}
	m.file.markNext(c.file.ch, seq, 1) // before the put: if we are killed after it, we must not put the frame again
	put, err := c.file.w.TryPut(frame)
	if err != nil {
		m.file.mark(c.file.ch)
		return err
	}
	c.countForeignFrames(put, 1)
	m.file.putSeq = put
	c.wakeKernelCopy()
	m.health.recover()
	c.health.recover()
	return nil
}

func (m *Mirror) event(kind status.EventKind, text string) status.Event {
	return status.Event{Kind: kind, Host: m.Host, Channel: m.Channel, Mirror: m.Name, Text: text}
}

// Lost reports whether a command mirror is stale and its safe frame was put, if it has one.
func (m *Mirror) Lost() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.qos.Class == rule.Command && m.deadlineMonitor.isStale() && !m.safeFramePending()
}

// NeedsLastValue reports whether the safe frame must still be put after the last command.
func (m *Mirror) NeedsLastValue() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.safeFramePending()
}

// OwnsFile reports whether achbridge created the mirror's file, or will create it.
func (m *Mirror) OwnsFile() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.channel().file.owned
}
