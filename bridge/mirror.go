package bridge

import (
	"log/slog"
	"time"

	"achbridge/bridge/fresh"
	"achbridge/bridge/ledger"
	"achbridge/bridge/lock"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/wire"
)

// mirror is the local copy of a channel of another host. The file outlives the
// link and the daemon; its tag says whose it is and which frame it holds, so
// that no frame is put twice and none after a newer one.
type mirror struct {
	id                  uint32 // among all the mirrors of this run of the daemon
	name, host, channel string
	dir                 localach.Dir
	space               *space
	adopt               []string
	mode                rule.FileMode // of a file that is made
	log                 *slog.Logger
	events              *status.Journal
	spawn               func(func()) // starts a goroutine that the node waits for
	peek                bool         // it is for who looks, and goes with him
	clock               hostClock

	// These belong to the node's goroutine.
	link   *link // that feeds it now
	subID  uint32
	origin wire.Channel // as the link's catalog has it
	from   source       // zero before the first subscription
	retry  time.Duration
	barred barred          // what the origin's rules refuse
	run    uint64          // life of the peer's daemon that captured counts in
	rivals map[string]bool // channels that wanted this name too, and were named in the log
	looked time.Duration   // when trouble with the file was last dealt with; 0: never
	asked  uint64          // frame that was asked for then
	wait   time.Duration   // until it is asked for again
	teller ledger.Teller
	// parting: nobody wants it any more, and it stays until its safe frame is put
	parting bool

	mu       lock.Mutex[lock.Mirror] // guards the rest
	feed     *inbound                // the subscription that frames may come from
	qos      rule.QoS
	state    status.MirrorState
	reason   string
	cause    status.Cause           // of the reason
	failure  string                 // of the last put; empty when it was good
	planned  *localach.CreateConfig // of the file, until it is made; nil: there is one, or is to be none
	ch       *localach.Channel
	w        *localach.Writer
	tag      localach.Tag  // Seq is the newest frame that the file holds
	least    uint64        // newest frame of a file that was replaced: older ones are not put
	owned    bool          // we made the file and may replace it
	wide     string        // as whose its memory is counted, as for space.take
	puts     *putRecord    // what was put into a file that is not ours; nil: none was opened yet
	owed     bool          // the file lacks the newest frame that came
	captured time.Duration // of the newest frame, by the peer's clock; 0 unknown
	ages     ages
	pace     ledger.Pace
	putSeq   uint64        // what our last put returned
	bytes    int           // that the frame which came last took on its way
	transit  time.Duration // how old it was then; 0: unknown
	pending  kept
	waiting  bool            // retryPut works on pending
	waits    fresh.Stopwatch // for how long it has in all
	recent   fresh.Recent    // frames that came, of those that the last subscription brought
	lacking  lacking
	held     *uint64         // where the newest frame of the file is counted, nil as for lacking
	count    ledger.Accounts // what became of the frames that came
	base     ledger.Accounts // the same when the last subscription began
	// originCause is why the origin cannot read the channel, as it told last
	originCause status.Cause
	told        ledger.Accounts // the whole ledger, as the origin has told it last
	heard       ledger.Accounts // count at that time
	replaced    uint64
	foreign     uint64 // frames that somebody else has put
	contest     contest

	refusing   time.Time // since when every frame is refused; zero: the last one was put
	complained time.Time // of frames, in the log
	vigil      vigil
	meta       *companion // nil: none
	silent     bool       // nothing is heard of the host that feeds it
	ending     bool       // nothing but a safe frame is put any more
}

// expect prepares for a subscription to life epoch of the origin and returns the
// last frame of it that the mirror holds, 0 when it holds none, and what it has
// counted so far.
func (m *mirror) expect(epoch uint64, qos rule.QoS) (have uint64, counted ledger.Accounts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pending.seq != 0 {
		m.pending.seq = 0 // it comes again
		m.count.Superseded++
	}
	m.feed, m.qos, m.recent, m.lacking, m.held, m.owed, m.base = nil, qos, fresh.Recent{}, lacking{}, nil, false, m.count
	if m.tag.Epoch != epoch {
		m.forget(epoch)
	}
	if qos.Mode == rule.Newest && m.ch != nil && m.ch.LastSeq() == 0 {
		m.least, m.tag.Seq = max(m.least, m.tag.Seq), 0 // of mode every: the file lacks the newest frame
	}
	m.beginContest()
	return m.tag.Seq, m.count
}

// feedFrom lets the frames of a subscription in, for which the mirror was prepared
// by expect.
func (m *mirror) feedFrom(in *inbound) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.feed = in
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
	m.pace.Rest()
}

// forget needs m.mu. It begins a life of the origin of which nothing is here.
func (m *mirror) forget(epoch uint64) {
	m.tag.Epoch, m.tag.Seq, m.least, m.captured, m.pace = epoch, 0, 0, 0, ledger.Pace{}
	m.pending.seq = 0
}

// begin takes the origin's word that frames of life epoch come now, the newest
// being last. False means that we told it, when we asked, of a later frame than
// that, have: then the mirror forgets what it knows of that life. What it holds
// by now does not count, since frames may overtake the origin's word. An error says
// why there can be no file for them.
func (m *mirror) begin(epoch, last, have uint64) (ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tag.Epoch == epoch && max(have, m.least) > last {
		m.forget(epoch)
		return false, nil
	}
	if err := m.make(); err != nil {
		return false, err
	}
	m.state, m.reason, m.cause, m.refusing = status.MirrorLive, "", "", time.Time{}
	m.tell()
	return true, nil
}

// write puts a frame, into a larger file if it does not fit. ErrBusy says that
// somebody holds the lock: then nothing has happened. Needs m.mu.
func (m *mirror) write(seq uint64, captured time.Duration, at reading, frame []byte) error {
	if err := m.tryPut(seq, frame); err != nil {
		return err
	}
	m.age(captured, at)
	m.captured = captured
	m.tag.Seq, m.owed = seq, seq < m.lacking.seq
	m.fed()
	m.tellPut(captured, at)
	return nil
}

// tryPut puts a frame after which frame seq of the origin is the newest in the file.
// Needs m.mu.
func (m *mirror) tryPut(seq uint64, frame []byte) error {
	if len(frame) > dataBytes(m.ch.Geometry()) {
		if err := m.replace("a frame does not fit", len(frame)); err != nil {
			return err
		}
	}
	m.markNext(seq, 1) // before: killed after the put, we would put it again
	put, err := m.w.TryPut(frame)
	if err != nil {
		m.mark()
		return err
	}
	m.lookForOthers(put, 1)
	m.putSeq = put
	if m.failure != "" {
		m.failure, m.reason, m.cause, m.refusing = "", "", "", time.Time{}
	}
	return nil
}

// refuse says why there is no mirror.
func (m *mirror) refuse(cause status.Cause, reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.reason, m.cause, m.planned = status.MirrorRefused, reason, cause, nil
	m.endContest("we do not write into it any more")
	m.tell()
}

// loop refuses a mirror whose frames would come here twice, or come round, by l.
func (m *mirror) loop(l *link, cause status.Cause, reason string) {
	m.mu.Lock()
	told := m.state == status.MirrorRefused && m.reason == reason
	m.mu.Unlock()
	m.refuse(cause, reason)
	if !told {
		l.warn("mirror refused: it comes round", status.Event{Kind: status.EventLoop, Channel: m.channel, Mirror: m.name, Text: reason}, "cause", reason)
	}
}

func (m *mirror) event(kind status.EventKind, text string) status.Event {
	return status.Event{Kind: kind, Host: m.host, Channel: m.channel, Mirror: m.name, Text: text}
}

// bar remembers that the origin's rules refuse the mirror as it is asked for.
func (m *mirror) bar(epoch uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.barred = barred{epoch, m.qos}
}

// unbind says that nobody feeds the mirror now.
func (m *mirror) unbind(cause status.Cause, reason string) {
	m.link = nil
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.reason, m.cause = status.MirrorWaiting, reason, cause
	m.endContest("we do not write into it any more")
	m.tell()
}
