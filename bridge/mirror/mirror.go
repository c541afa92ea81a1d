package mirror

import (
	"log/slog"
	"os"
	"time"

	"achbridge/bridge/delivery"
	"achbridge/bridge/ledger"
	"achbridge/bridge/lock"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
)

// Config is what a mirror is made with, and does not change.
type Config struct {
	Name, Host, Channel string
	Temporary           bool // removed with its last viewer
	Unauthenticated     bool // nothing proves who sends its frames, nor tells how old they are
	Dir                 localach.Dir
	Mode                rule.FileMode // of a file that is made
	Space               *Space
	Log                 *slog.Logger
	Events              *status.Journal
	Spawn               func(func()) // starts a goroutine that the node waits for
	Clock               Clock
}

// Mirror is the local copy of a channel of another host. The file outlives the
// link and the daemon; its tag says whose it is and which frame it holds, so
// that no frame is put twice and none after a newer one. Methods are safe for
// concurrent use; none but PutInOrder waits for another program.
type Mirror struct {
	Config

	mu       lock.Mutex[lock.Mirror] // guards what follows
	qos      rule.QoS
	source   source
	health   health
	file     file
	vigil    vigil
	frames   frames
	counters counters
}

// source is the subscription that feeds a mirror, as the node has told it last.
type source struct {
	feed   *Feed  // nil: none has begun yet
	run    uint64 // life of the peer's daemon whose clock gives the capture times
	silent bool   // nothing is heard of the host that feeds the mirror
}

// New returns a mirror that has not opened anything yet. adopt are the existing
// channels, not made by achbridge, that it may write into.
func New(cfg Config, qos rule.QoS, adopt []string) *Mirror {
	return &Mirror{Config: cfg, qos: qos, file: file{adopt: adopt}}
}

// SetAdopt changes which existing channels the mirror may write into.
func (m *Mirror) SetAdopt(adopt []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.file.adopt = adopt
}

// Feed is one subscription that brings frames.
type Feed struct {
	Epoch  uint64 // life of the channel
	Run    uint64 // life of the daemon whose clock gives the capture times
	Silent bool   // nothing is heard of the host when the subscription begins
}

// Subscribe prepares for the subscription f. From now on only its frames are put. Subscribe
// returns the newest frame of the epoch that the mirror holds, 0 when it holds none, and the
// mirror's counts so far.
func (m *Mirror) Subscribe(f *Feed, qos rule.QoS) (have uint64, counted ledger.Accounts) {
	m.changeClock(f.Run)
	have, counted = m.expect(f.Epoch, qos)
	m.feedFrom(f)
	m.watchDeadline()
	return have, counted
}

// Holds returns the quality of service that the mirror asks for, and the newest frame
// that it holds.
func (m *Mirror) Holds() (qos rule.QoS, seq uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.qos, m.file.tag.Seq
}

// Newest copies the newest frame of the mirror's file, as localach.Reader.TryNext does.
func (m *Mirror) Newest(buf []byte) (int, error) {
	m.mu.Lock()
	ch := m.file.ch
	m.mu.Unlock()
	if ch == nil {
		return 0, os.ErrDeadlineExceeded
	}
	return ch.Reader().TryNext(buf)
}

// Requalify changes the quality of service. It reports whether the mirror has to subscribe
// anew for it, and if not, whether the origin is to be told.
func (m *Mirror) Requalify(qos rule.QoS) (anew, tell bool) {
	m.mu.Lock()
	before := m.qos
	if before.Mode == qos.Mode && before != qos {
		m.qos, m.frames.lateness = qos, lateness{} // it was judged by the former
	}
	m.mu.Unlock()
	if before.Mode != qos.Mode || before.Meta != qos.Meta && m.accompany(qos) != nil {
		return true, false // accompany will say once more why it cannot
	}
	m.watchDeadline()
	return false, before.Wire() != qos.Wire()
}

// expect prepares for a subscription to life epoch of the origin and returns the
// last frame of it that the mirror holds, 0 when it holds none, and what it has
// counted so far.
func (m *Mirror) expect(epoch uint64, qos rule.QoS) (have uint64, counted ledger.Accounts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.frames.pending.seq != 0 {
		m.frames.pending.seq = 0 // it comes again
		m.counters.own.Superseded++
	}
	m.source.feed, m.qos = nil, qos
	m.frames.recent, m.frames.lacking, m.frames.lateness = delivery.Recent{}, lacking{}, lateness{}
	m.counters.begin()
	if m.file.tag.Epoch != epoch {
		m.forget(epoch)
	}
	if qos.Mode == rule.Newest && m.file.ch != nil && m.file.ch.LastSeq() == 0 {
		m.file.least, m.file.tag.Seq = max(m.file.least, m.file.tag.Seq), 0 // of mode every: the file lacks the newest frame
	}
	m.beginContest()
	return m.file.tag.Seq, m.counters.own
}

// feedFrom begins to accept the frames of f, for which expect has prepared the mirror.
func (m *Mirror) feedFrom(f *Feed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.source.feed, m.source.silent = f, f.Silent
	m.tell()
}

// changeClock forgets a capture time that counts in the life of another daemon.
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

// forget needs m.mu. It begins a life of the origin of which nothing is here.
func (m *Mirror) forget(epoch uint64) {
	m.file.tag.Epoch, m.file.tag.Seq, m.file.least = epoch, 0, 0
	m.frames.capturedAt, m.frames.pace, m.frames.pending.seq = 0, ledger.Pace{}, 0
	m.counters.originUpTo = 0
}

// Begin takes the origin's word that frames of life epoch come now, the newest
// being last. False means that we told it, when we asked, of a later frame than
// that, have: then the mirror forgets what it knows of that life. What it holds
// by now does not count, since frames may overtake the origin's word. An error says
// why there can be no file for them.
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
	m.tell()
	return true, nil
}

// incoming is a frame that is to be put now.
type incoming struct {
	seq      uint64
	captured time.Duration
	at       Reading
	late     bool
	data     []byte
}

// write puts a frame, into a larger file if it does not fit. ErrBusy says that
// somebody holds the lock: then nothing has happened. Needs m.mu.
func (m *Mirror) write(f incoming) error {
	if err := m.tryPut(f.seq, f.data); err != nil {
		return err
	}
	if f.late {
		m.frames.lateness.add(f.seq, f.at.Now)
	} else {
		m.frames.lateness = lateness{}
	}
	m.age(f.captured, f.at)
	m.frames.capturedAt, m.frames.putAt = f.captured, f.at.Now
	m.file.tag.Seq, m.frames.lacking.owed = f.seq, f.seq < m.frames.lacking.seq
	m.fed(!f.late)
	m.tellPut(f.captured, f.at)
	return nil
}

// tryPut puts a frame after which frame seq of the origin is the newest in the file.
// Needs m.mu.
func (m *Mirror) tryPut(seq uint64, frame []byte) error {
	if len(frame) > dataBytes(m.file.ch.Geometry()) {
		if err := m.replace("a frame does not fit", len(frame)); err != nil {
			return err
		}
	}
	m.file.markNext(seq, 1) // before: killed after the put, we would put it again
	put, err := m.file.w.TryPut(frame)
	if err != nil {
		m.file.mark()
		return err
	}
	m.lookForOthers(put, 1)
	m.file.putSeq = put
	m.health.recover()
	return nil
}

func (m *Mirror) event(kind status.EventKind, text string) status.Event {
	return status.Event{Kind: kind, Host: m.Host, Channel: m.Channel, Mirror: m.Name, Text: text}
}

// Lost reports whether a command mirror is stale and nothing is owed to it.
func (m *Mirror) Lost() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.qos.Class == rule.Command && m.vigil.isStale() && !m.owesSafe()
}

// Owes reports whether a safe frame is to follow the last command.
func (m *Mirror) Owes() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owesSafe()
}

// OwnsFile reports whether the mirror's file is one that achbridge made, or is to make.
func (m *Mirror) OwnsFile() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.file.owned
}
