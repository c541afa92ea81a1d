package mirror

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/bridge/clock"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
)

// wedgedAfter is how long a broadcast may hang before the mirror's file is replaced. A broadcast hangs after a
// waiting local reader was killed (ach-abi: "What goes wrong in the field").
const wedgedAfter = time.Second

// Check checks the mirror's file and returns why it cannot be used. It replaces our own file if it is damaged,
// not writable, or its readers cannot be woken. lacks is the newest frame that arrived but is not in the file, 0
// if none. Look also reports whether the origin must be asked to retransmit that frame.
func (m *Mirror) Check() (lacks uint64, mustRetransmit bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.Into != nil && m.file.lost != m.Into.file.lost:
		return 0, false, errors.New("the output of its merge was made again")
	case m.Into != nil:
		return m.Into.check()
	}
	return m.check()
}

// check is like Check, but m.mu must be held.
func (m *Mirror) check() (lacks uint64, mustRetransmit bool, err error) {
	switch {
	case m.file.planned != nil:
		return m.frames.unwritten.seq, false, nil
	case m.file.w == nil:
		return m.frames.unwritten.seq, false, errors.New("it is not open")
	}
	err = m.file.ch.Check() // first: a missing file must not be replaced
	if err == nil || errors.Is(err, localach.ErrDirty) {
		m.checkForeignFrames() // last_seq of a damaged file is meaningless
	}
	m.checkKernelCopy()
	switch damaged := m.damage(err); {
	case m.file.owned && errors.Is(err, localach.ErrDirty):
		err = m.replace("a program died while it wrote into it", 0)
	case damaged != nil && m.mayHeal():
		err = m.heal(damaged)
	case damaged != nil:
		return m.frames.unwritten.seq, false, nil // the mirror refuses frames until the file may be replaced
	case err == nil && m.file.owned && m.file.w.Stuck() > wedgedAfter:
		m.Log.Warn("mirror wedged: a local reader was killed while it waited", "channel", m.Name)
		err = m.replace("wedged", 0)
	}
	return m.frames.unwritten.seq, m.frames.unwritten.mustRetransmit && !m.frames.pending.isRetried, err
}

// healAgain is the minimum time between two replacements of damaged files. It limits the cost of a program that
// damages each new file.
const healAgain = 10 * time.Second

// damage returns the error that makes the mirror's own file unusable, or nil. err is the result of checking the
// file; a damaged index is found only by puts. A file that another program has replaced or initialised again
// does not count as damaged. m.mu must be held.
func (m *Mirror) damage(err error) error {
	switch {
	case !m.file.owned || errors.Is(err, localach.ErrReinitialised) || errors.Is(err, localach.ErrDirty) || !m.ownsName():
	case errors.Is(err, localach.ErrCorrupt):
		return err
	case err == nil && m.health.cause == status.CauseCorrupt && m.health.refusesAll(m.Clock.now()):
		return errors.New(m.health.reason)
	}
	return nil
}

// ownsName reports whether the file that has the mirror's name now belongs to our user. m.mu must be held.
func (m *Mirror) ownsName() bool {
	var st unix.Stat_t
	return unix.Lstat(m.Dir.Path(m.Name), &st) == nil && int(st.Uid) == os.Geteuid()
}

// mayHeal reports whether a damaged file may be replaced now, see healAgain. m.mu must be held.
func (m *Mirror) mayHeal() bool {
	return m.file.healedAt == 0 || m.Clock.now()-m.file.healedAt >= healAgain
}

// heal replaces a damaged file. m.mu must be held.
func (m *Mirror) heal(damage error) error {
	m.file.healedAt = m.Clock.now()
	return m.replace("its file was damaged: "+damage.Error(), 0)
}

// replace replaces the mirror's file by an empty one with the same permissions. size is the minimum frame size of
// the new file, in bytes. Programs that have the old file open get the error CORRUPT instead of silence. A file
// of another program under this name is left unchanged. In mode every, the new file continues where the old one
// ended. m.mu must be held.
func (m *Mirror) replace(why string, size int) error {
	if !m.file.owned && size > 0 {
		g := m.file.ch.Geometry()
		larger := localach.Geometry{FrameCount: g.FrameCount, FrameSize: size}.Grow()
		return fmt.Errorf("%s: a frame of %d bytes %w, it holds %d; achbridge did not make it, so make it again, larger: %v", m.Name, size, errFrameSize, dataBytes(g), larger)
	}
	if !m.file.owned {
		return fmt.Errorf("%s: %s, and achbridge did not make it: make it again", m.Name, why)
	}
	old, oldWriter := m.file.ch, m.file.w
	err := old.Check()
	if errors.Is(err, localach.ErrReplaced) || errors.Is(err, localach.ErrReinitialised) {
		return err
	}
	g := old.Geometry()
	g.FrameSize = max(g.FrameSize, size)
	tag := m.file.tag
	if m.qos.Mode == rule.Newest {
		tag.Seq = 0 // the new file lacks the newest frame
	}
	ch, err := m.create(localach.CreateConfig{
		Geometry: g.Grow(), Like: old, Tag: tag,
		Replace: !errors.Is(err, localach.ErrUnlinked),
	})
	if err != nil {
		return err
	}
	m.Space.add(-FileBytes(old.Geometry()), m.file.countedFor)
	m.file.least = max(m.file.least, m.file.tag.Seq)
	m.moveRecords(old, ch)
	m.endKernelCopy(false)
	m.file.open(ch)
	m.copyToKernel()
	m.without(m.file.tag.Seq, m.counters.newest)
	m.file.tag = tag
	m.file.replaced++
	m.noteEmpty()
	m.emptyMetadata()
	m.Events.Record(slog.LevelWarn, "mirror replaced", m.event(status.EventMirrorReplaced, why), "cause", why)
	m.discard(old, oldWriter)
	return nil
}

// fail counts and logs a frame that could not be put. The node's next check requests the frame again, and opens
// the file again if it is the problem. m.mu must be held.
func (m *Mirror) fail(seq uint64, err error) {
	m.counters.own.Refused++
	if errors.Is(err, errNotHeld) {
		return // the event about the lock reports it
	}
	m.without(seq, &m.counters.own.Refused)
	m.failed("put into mirror failed", err)
}

// RefuseFrame counts and logs a frame of a feed that its origin cannot have put.
func (m *Mirror) RefuseFrame(from *Feed, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if from != m.source.feed {
		return
	}
	m.counters.own.Refused++
	m.failed("frame refused", err)
}

// pending is the newest frame that arrived while the lock of the mirror's file was taken, or while its stamps could
// not be shifted.
type pending struct {
	kept
	isRetried bool            // retryPut is running
	waits     clock.Stopwatch // total time for which frames have waited for the lock
}

// kept is a frame that waits to be put.
type kept struct {
	frame    []byte
	seq      uint64 // 0 if no frame waits
	captured time.Duration
	at       Reading       // clock reading at the frame's arrival
	keptAt   time.Duration // when the frame was kept, by the node's clock
	late     bool
	until    time.Duration // when the frame becomes late; 0 if unknown
}

// keep copies a frame so that retryPut can put it later. m.mu must be held.
func (m *Mirror) keep(a Arrival, late bool) {
	p := &m.frames.pending
	p.kept = kept{frame: append(p.frame[:0], a.Data...), seq: a.Seq, captured: a.Captured, at: a.At, keptAt: m.Clock.now(), late: late}
	if !late && a.Captured != 0 && a.At.Known {
		p.until = max(1, m.Clock.now()+m.left(a))
	}
}

// Retries while the file's lock is taken begin at busyRetry and slow down to busySeldom, because the lock's
// owner may be stopped for hours.
const (
	busyRetry  = time.Millisecond
	busySeldom = 10 * time.Millisecond
)

// retryPut puts the pending frame as soon as the lock is free. Newer frames replace the pending one meanwhile.
// It ends when the mirror is closed.
func (m *Mirror) retryPut() {
	for wait := busyRetry; m.putPending(m.readOrigin()); wait = clock.Longer(wait, busyRetry, busySeldom) {
		time.Sleep(wait)
	}
}

// putPending tries to put the pending frame. origin is the present reading of the origin's clock, see readOrigin. It
// reports whether the frame still has to wait.
func (m *Mirror) putPending(origin Reading) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := &m.frames.pending
	now := m.Clock.now()
	if p.until != 0 && now > p.until || p.seq != 0 && m.qos.Class == rule.Command && m.Clock.slept(p.at) {
		p.late = true
	}
	switch {
	case m.file.w == nil || p.seq == 0:
	case p.late && m.qos.Class == rule.Command:
		m.countLate(p.seq)
		m.frames.lateness.add(p.seq, now)
	default:
		at := p.asOf(now)
		if origin.Known {
			at = origin
		}
		err := m.write(incoming{p.seq, p.captured, at, p.late, p.frame})
		if IsBusy(err) {
			return true
		}
		if errors.Is(err, errExpired) {
			m.countLate(p.seq)
		} else if err != nil {
			m.fail(p.seq, err)
		} else {
			m.counters.put(p.late)
		}
	}
	p.seq, p.isRetried = 0, false
	p.waits.Stop(p.asOf(m.Clock.now()).Now)
	return false
}
