package mirror

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
)

// companion is the channel NAME.meta of a mirror, see Meta. It is under the mirror's
// mu and lasts as long as the mirror has the option.
type companion struct {
	name  string
	ch    *localach.Channel
	w     *localach.Writer
	frame status.Meta   // as it was composed last
	told  status.Meta   // as the channel has it,
	blank bool          // unless it has nothing yet
	ended bool          // nobody feeds the mirror any more
	retry time.Duration // not before; 0: at once
	buf   []byte        // of its own, as cgo wants it

	failure string // as the log has it
}

const (
	// The ring is as deep as the mirror's, so that who reads every frame finds what
	// was told of it, within these bounds.
	leastMetaFrames, mostMetaFrames = 16, 1024
	// metaRetry is how long a companion whose lock is taken is left alone: it must
	// not slow the mirror.
	metaRetry = 10 * time.Millisecond
)

// MetaOf returns the mirror to which a channel belongs, if the channel is a companion.
func MetaOf(channel string, tag localach.Tag) (mirror string, ok bool) {
	mirror, ok = strings.CutSuffix(channel, rule.MetaSuffix)
	return mirror, ok && tag.Channel == metaMark(mirror)
}

// isMeta reports whether a file is a companion that a daemon of our user made.
func isMeta(ch *localach.Channel) bool {
	_, ok := MetaOf(ch.Name(), ch.OwnTag())
	return ok
}

// metaMark identifies the mirror in the tag of its companion's file. No channel of another
// host has this mark, since every host has a name.
func metaMark(mirror string) uint64 { return channelHash("", mirror) }

// accompany makes or removes the companion of an open mirror, as qos asks.
func (m *Mirror) accompany(qos rule.QoS) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.attend(qos)
}

// attend is accompany for a caller that holds m.mu.
func (m *Mirror) attend(qos rule.QoS) error {
	if qos.Meta {
		return m.addMeta()
	}
	m.removeMeta()
	return nil
}

// removeMeta removes the companion's file, also that of an earlier life of the daemon.
// Needs m.mu.
func (m *Mirror) removeMeta() {
	m.endMeta()
	ch, err := m.Dir.TryOpen(m.Name + rule.MetaSuffix)
	if err != nil {
		return
	}
	if isMeta(ch) {
		_ = m.Dir.Unlink(ch.Name())
	}
	ch.Close()
}

// addMeta opens the companion, unless it is open. A mirror whose file is only planned gets
// its companion together with the file. Needs m.mu.
func (m *Mirror) addMeta() error {
	if m.file.meta != nil {
		return nil
	}
	if err := rule.CheckMetaName(m.Name); err != nil || m.file.planned != nil {
		return err
	}
	c := &companion{name: m.Name + rule.MetaSuffix, blank: true, buf: make([]byte, status.MetaSize)}
	if err := m.openMeta(c); err != nil {
		return err
	}
	m.file.meta = c
	m.tell()
	return nil
}

// openMeta opens the companion's file and reads the entry of the mirror's frame from it. It
// creates the file if there is none. Needs m.mu.
func (m *Mirror) openMeta(c *companion) error {
	ch, err := m.Dir.TryOpen(c.name)
	if errors.Is(err, fs.ErrNotExist) {
		return m.createMeta(c)
	}
	if err != nil {
		return fmt.Errorf("%w; end the programs that use it, then `achbridge channel rm %s`; or leave meta out", err, c.name)
	}
	if !isMeta(ch) {
		ch.Close()
		return fmt.Errorf("%s: there is a channel of that name that is not the companion of %s; give the mirror another name with --as, or leave meta out", c.name, m.Name)
	}
	if errors.Join(ch.Check(), ch.Reserve()) != nil {
		if err := m.replaceMeta(c); err != nil {
			ch.Close()
			return err
		}
		m.discard(ch, ch.Writer())
		return nil
	}
	m.Space.add(FileBytes(ch.Geometry()), "")
	c.ch, c.w = ch, ch.Writer()
	if n, err := ch.Reader().TryNext(c.buf); err == nil {
		if last, err := status.ParseMeta(c.buf[:n]); err == nil && last.Epoch == m.file.tag.Epoch && last.Seq == m.file.tag.Seq && last.MirrorSeq == m.file.putSeq {
			c.frame, c.told, c.blank = last, last, false
		}
	}
	return nil
}

// createMeta creates the companion's file, with the permissions of the mirror's file. Needs
// m.mu.
func (m *Mirror) createMeta(c *companion) error { return m.makeMeta(c, localach.CreateConfig{}) }

// replaceMeta is createMeta for a file that may exist already: it is replaced. Needs m.mu.
func (m *Mirror) replaceMeta(c *companion) error {
	return m.makeMeta(c, localach.CreateConfig{Replace: true})
}

func (m *Mirror) makeMeta(c *companion, cfg localach.CreateConfig) error {
	g := localach.Geometry{FrameCount: min(max(m.file.ch.Geometry().FrameCount, leastMetaFrames), mostMetaFrames), FrameSize: status.MetaSize}.Grow()
	if err := m.Space.take(FileBytes(g), ""); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	cfg.Geometry, cfg.Like, cfg.Tag = g, m.file.ch, localach.Tag{Node: m.file.tag.Node, Channel: metaMark(m.Name)}
	ch, err := m.Dir.Create(c.name, cfg)
	if err != nil {
		m.Space.add(-FileBytes(g), "")
		return err
	}
	c.ch, c.w, c.blank = ch, ch.Writer(), true
	return nil
}

// tellPut tells of the frame that was just put. Needs m.mu.
func (m *Mirror) tellPut(captured time.Duration, at Reading) {
	if m.file.meta == nil {
		return
	}
	f := &m.file.meta.frame
	f.Epoch, f.Seq, f.MirrorSeq, f.Safe = m.file.tag.Epoch, m.file.tag.Seq, m.file.putSeq, false
	f.Put = m.Clock.of(m.vigil.last)
	m.tellCaptured(captured, at)
	m.tell()
}

// tellCaptured needs m.mu, and that there is a companion.
func (m *Mirror) tellCaptured(captured time.Duration, at Reading) {
	f := &m.file.meta.frame
	f.Captured, f.Uncertainty = 0, 0
	if captured != 0 && at.Known {
		f.Captured, f.Uncertainty = m.Clock.of(captured-at.Offset), at.Uncertainty
	}
}

// tellSafe tells that the safe frame was put. Needs m.mu.
func (m *Mirror) tellSafe(now time.Duration) {
	if m.file.meta == nil {
		return
	}
	f := &m.file.meta.frame
	f.MirrorSeq, f.Safe, f.Captured, f.Uncertainty = m.file.putSeq, true, 0, 0
	f.Put = m.Clock.of(now)
	m.tell()
}

// tellEmpty tells that the mirror has a new file, without a frame. Needs m.mu.
func (m *Mirror) tellEmpty() {
	if m.file.meta != nil {
		m.file.meta.frame = status.Meta{Epoch: m.file.tag.Epoch}
		m.tell()
	}
}

// FellSilent records that the host which feeds the mirror is no longer heard.
func (m *Mirror) FellSilent() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.source.silent = true
	m.tell()
}

// HeardAgain records that the host which feeds the mirror is heard again.
func (m *Mirror) HeardAgain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.source.silent = false
	m.tell()
}

// tell tells what has changed. It waits for nobody: when the companion's lock is
// taken, the next call that comes later tells it. Needs m.mu.
func (m *Mirror) tell() {
	c := m.file.meta
	if c == nil {
		return
	}
	c.frame.Link, c.frame.Stale, c.frame.Deadline = m.metaLink(), m.vigil.isStale(), m.qos.Deadline
	if c.frame == c.told && !c.blank || c.retry != 0 && m.Clock.now() < c.retry {
		return
	}
	c.retry = 0
	switch _, err := c.w.TryPut(c.frame.Append(c.buf[:0])); {
	case err != nil:
		c.retry = m.Clock.now() + metaRetry
	default:
		c.told, c.blank = c.frame, false
	}
}

// metaLink needs m.mu, and that there is a companion.
func (m *Mirror) metaLink() status.MetaLink {
	switch {
	case m.file.meta.ended:
		return status.MetaDown
	case m.health.phase == refused, m.health.phase == live && m.health.refusesAll(m.Clock.now()):
		return status.MetaRefused
	case m.health.phase != live:
		return status.MetaDown
	case m.source.silent:
		return status.MetaSilent
	}
	return status.MetaUp
}

// Tend is called several times a second. It records the mirror's frame counters for LostShare, and repairs the file of the metadata
// channel. Once at has the peer's clock, Tend also writes into that file the age of a frame that came before the clock was known.
func (m *Mirror) Tend(at Reading) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counters.recent.Keep(at.Now, m.accounts())
	c := m.file.meta
	if c == nil {
		return
	}
	if err := c.ch.Check(); err != nil || c.w.Stuck() > wedgedAfter {
		m.renewMeta(err)
	}
	if c.frame.Captured == 0 && m.frames.capturedAt != 0 && !c.frame.Safe && c.frame.Seq == m.file.tag.Seq {
		m.tellCaptured(m.frames.capturedAt, at)
	}
	m.tell()
}

// renewMeta replaces the companion's file, unless another program has put one in its place.
// err is what is wrong with the file; nil means that its waiters cannot be woken. Needs m.mu.
func (m *Mirror) renewMeta(err error) {
	c := m.file.meta
	if m.file.ch == nil {
		return
	}
	old, oldWriter := c.ch, c.w
	if !errors.Is(err, localach.ErrReplaced) {
		remake := m.replaceMeta
		if errors.Is(err, localach.ErrUnlinked) {
			remake = m.createMeta // another program's file may have this name now
		}
		err = remake(c)
	}
	if err != nil {
		if c.failure != err.Error() {
			c.failure = err.Error()
			m.Log.Warn("companion of a mirror is not usable", "channel", c.name, "peer", m.Host, "err", err)
		}
		return
	}
	c.failure, c.retry = "", 0
	m.Space.add(-FileBytes(old.Geometry()), "")
	m.discard(old, oldWriter)
}

// endMeta takes the companion away, file and all. Needs m.mu.
func (m *Mirror) endMeta() {
	if m.file.meta == nil {
		return
	}
	if m.file.meta.ch.Check() == nil {
		_ = m.Dir.Unlink(m.file.meta.name)
	}
	m.closeMeta()
}

// closeMeta leaves the companion with the word that nobody feeds the mirror. Needs m.mu.
func (m *Mirror) closeMeta() {
	c := m.file.meta
	if c == nil {
		return
	}
	c.ended, c.retry = true, 0
	m.tell()
	m.file.meta = nil
	m.Space.add(-FileBytes(c.ch.Geometry()), "")
	m.letGo(c.ch, c.w)
}
