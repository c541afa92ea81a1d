package mirror

import (
	"log/slog"
	"os"
	"time"

	"achbridge/bridge/clock"
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

	mu lock.Mutex[lock.Mirror] // guards what follows

	// What is wanted, and what the node has told.
	adopt  []string // existing channels, not made by achbridge, that it may write into
	qos    rule.QoS
	feed   *Feed  // the subscription that frames may come from
	run    uint64 // life of the peer's daemon that captured counts in
	silent bool   // nothing is heard of the host that feeds it
	ending bool   // nothing but a safe frame is put any more

	// What it tells of itself.
	state      status.MirrorState
	reason     string
	refusedBy  string        // the host that refuses, while m.state is MirrorRefused; empty: this one
	cause      status.Cause  // of the reason
	failure    string        // of the last put; empty when it was good
	refusing   time.Duration // since when every frame is refused; 0: the last one was put
	complained time.Duration // when the log had something of frames last; 0: never

	// Its file, and those beside it.
	planned *localach.CreateConfig // of the file, until it is made; nil: there is one, or is to be none
	ch      *localach.Channel
	w       *localach.Writer
	tag     localach.Tag // Seq is the newest frame that the file holds
	putSeq  uint64       // what our last put returned
	least   uint64       // newest frame of a file that was replaced: older ones are not put
	owned   bool         // we made the file and may replace it
	wide    string       // as whose its memory is counted, as for Space.take
	puts    *putRecord   // what was put into a file that is not ours; nil: none was opened yet
	meta    *companion   // nil: none
	contest contest
	vigil   vigil

	// The frames that came.
	captured time.Duration // of the newest frame, by the peer's clock; 0 unknown
	arrived  time.Duration // when it was put, by the node's clock; 0: none was
	bytes    int           // that the frame which came last took on its way
	transit  time.Duration // how old it was then; 0: unknown
	ages     ages
	pace     ledger.Pace
	recent   delivery.Recent // of those that the last subscription brought
	lacking  lacking
	lateness lateness
	owed     bool            // the file lacks the newest frame that came
	pending  kept            // the newest that came while the lock of the file was taken
	waiting  bool            // retryPut works on pending
	waits    clock.Stopwatch // for how long it has in all

	// What became of them.
	count       ledger.Accounts
	base        ledger.Accounts // count when the last subscription began
	held        *uint64         // where the newest frame of the file is counted, nil as for lacking
	told        ledger.Accounts // the whole ledger, as the origin has told it last
	heard       ledger.Accounts // count at that time
	lately      ledger.Recent   // the frame counters of the last ten seconds
	toldUpTo    uint64          // number of the newest frame in the origin's account; 0: not known
	originCause status.Cause    // why the origin cannot read the channel, as it told last
	replaced    uint64          // files
	healedAt    time.Duration   // when the last damaged file was replaced, by Clock; 0: never
	foreign     uint64          // frames that somebody else has put
}

// New returns a mirror that has not opened anything yet. adopt are the existing
// channels, not made by achbridge, that it may write into.
func New(cfg Config, qos rule.QoS, adopt []string) *Mirror {
	return &Mirror{Config: cfg, qos: qos, adopt: adopt}
}

// SetAdopt changes which existing channels the mirror may write into.
func (m *Mirror) SetAdopt(adopt []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.adopt = adopt
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
	return m.qos, m.tag.Seq
}

// Newest copies the newest frame of the mirror's file, as localach.Reader.TryNext does.
func (m *Mirror) Newest(buf []byte) (int, error) {
	m.mu.Lock()
	ch := m.ch
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
		m.qos, m.lateness = qos, lateness{} // it was judged by the former
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
	if m.pending.seq != 0 {
		m.pending.seq = 0 // it comes again
		m.count.Superseded++
	}
	m.feed, m.qos, m.recent, m.lacking, m.held, m.owed, m.base = nil, qos, delivery.Recent{}, lacking{}, nil, false, m.count
	m.lateness = lateness{}
	if m.tag.Epoch != epoch {
		m.forget(epoch)
	}
	if qos.Mode == rule.Newest && m.ch != nil && m.ch.LastSeq() == 0 {
		m.least, m.tag.Seq = max(m.least, m.tag.Seq), 0 // of mode every: the file lacks the newest frame
	}
	m.beginContest()
	return m.tag.Seq, m.count
}

// feedFrom begins to accept the frames of f, for which expect has prepared the mirror.
func (m *Mirror) feedFrom(f *Feed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.feed, m.silent = f, f.Silent
	m.tell()
}

// changeClock forgets a capture time that counts in the life of another daemon.
func (m *Mirror) changeClock(run uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run == run {
		return
	}
	m.run = run
	m.captured, m.pending.captured = 0, 0
	m.pace.Rest()
}

// forget needs m.mu. It begins a life of the origin of which nothing is here.
func (m *Mirror) forget(epoch uint64) {
	m.tag.Epoch, m.tag.Seq, m.least, m.captured, m.pace = epoch, 0, 0, 0, ledger.Pace{}
	m.pending.seq, m.toldUpTo = 0, 0
}

// Begin takes the origin's word that frames of life epoch come now, the newest
// being last. False means that we told it, when we asked, of a later frame than
// that, have: then the mirror forgets what it knows of that life. What it holds
// by now does not count, since frames may overtake the origin's word. An error says
// why there can be no file for them.
func (m *Mirror) Begin(epoch, last, have uint64) (ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tag.Epoch == epoch && max(have, m.least) > last {
		m.forget(epoch)
		return false, nil
	}
	if err := m.make(); err != nil {
		return false, err
	}
	m.state, m.reason, m.cause, m.refusing = status.MirrorLive, "", "", 0
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
		m.lateness.add(f.seq, f.at.Now)
	} else {
		m.lateness = lateness{}
	}
	m.age(f.captured, f.at)
	m.captured, m.arrived = f.captured, f.at.Now
	m.tag.Seq, m.owed = f.seq, f.seq < m.lacking.seq
	m.fed(!f.late)
	m.tellPut(f.captured, f.at)
	return nil
}

// tryPut puts a frame after which frame seq of the origin is the newest in the file.
// Needs m.mu.
func (m *Mirror) tryPut(seq uint64, frame []byte) error {
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
		m.failure, m.reason, m.cause, m.refusing = "", "", "", 0
	}
	return nil
}

// Refuse marks the mirror as refused by this host, for a cause and a reason. It reports whether they are new.
func (m *Mirror) Refuse(cause status.Cause, reason string) (news bool) {
	return m.RefusedBy("", cause, reason)
}

// RefusedBy is Refuse for another host that refuses. The cure has to be applied on that host.
func (m *Mirror) RefusedBy(host string, cause status.Cause, reason string) (news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	news = m.state != status.MirrorRefused || m.reason != reason
	m.state, m.reason, m.cause, m.refusedBy, m.planned = status.MirrorRefused, reason, cause, host, nil
	m.endContest("we do not write into it any more")
	m.tell()
	return news
}

func (m *Mirror) event(kind status.EventKind, text string) status.Event {
	return status.Event{Kind: kind, Host: m.Host, Channel: m.Channel, Mirror: m.Name, Text: text}
}

// Unfed says that nobody feeds the mirror now, and why.
func (m *Mirror) Unfed(cause status.Cause, reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.reason, m.cause = status.MirrorWaiting, reason, cause
	m.endContest("we do not write into it any more")
	m.tell()
}

// Lost reports whether a command mirror is stale and nothing is owed to it.
func (m *Mirror) Lost() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.qos.Class == rule.Command && m.vigil.stale && !m.owesSafe()
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
	return m.owned
}
