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

// metadataChannel is the metadata channel NAME.meta of a mirror, see status.Meta. It is guarded by the mirror's mu and
// exists while the mirror has the option meta. A mirror of a merge has a metadataChannel without a file: it writes into the file
// of the output's metadata channel. The output itself writes no metadata.
type metadataChannel struct {
	name        string
	ch          *localach.Channel
	w           *localach.Writer
	frame       status.Meta       // last composed metadata
	lastWritten status.Meta       // last metadata written into the channel; not valid while blank
	blank       bool              // nothing has been written into the channel yet
	isEnded     bool              // the mirror has no subscription any more
	isBusy      bool              // the last write failed because the lock of the metadata channel was taken
	of          *localach.Channel // only in a mirror of a merge: the output's file in which MirrorSeq counts
	retry       time.Duration     // earliest time of the next write; 0 means at once
	buf         []byte            // encoding buffer, allocated separately because it is passed to cgo

	failure string // last error that was logged
}

const (
	// Bounds of the ring's frame count. Within them it equals that of the mirror's ring, so that a reader of
	// every frame finds its metadata.
	leastMetaFrames, mostMetaFrames = 16, 1024
	// metaRetry is the delay before the next write after the metadata channel's lock was taken. Writes must not
	// slow the mirror.
	metaRetry = 10 * time.Millisecond
)

// MetaOf returns the mirror to which a channel belongs. ok is false if the channel is not a metadata channel.
func MetaOf(channel string, tag localach.Tag) (mirror string, ok bool) {
	mirror, ok = strings.CutSuffix(channel, rule.MetaSuffix)
	return mirror, ok && tag.Channel == metaMark(mirror)
}

// isMeta reports whether ch is a metadata channel that a daemon of our user created.
func isMeta(ch *localach.Channel) bool {
	_, ok := MetaOf(ch.Name(), ch.OwnTag())
	return ok
}

// metaMark identifies the mirror in the tag of its metadata channel. No channel of another host has this mark,
// since every host has a name.
func metaMark(mirror string) uint64 { return channelHash("", mirror) }

// accompany creates or removes the metadata channel of an open mirror, as qos requests.
func (m *Mirror) accompany(qos rule.QoS) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.attend(qos)
}

// attend is like accompany, but m.mu must be held.
func (m *Mirror) attend(qos rule.QoS) error {
	if qos.Meta {
		return m.addMeta()
	}
	m.removeMeta()
	return nil
}

// removeMeta removes the metadata channel's file, including one left by an earlier daemon. m.mu must be held.
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

// addMeta opens the metadata channel, unless it is open. If the mirror's file is only planned, addMeta does
// nothing: both files are created together. m.mu must be held.
func (m *Mirror) addMeta() error {
	if m.file.meta != nil {
		return nil
	}
	if err := rule.CheckMetaName(m.Name); err != nil || m.file.planned != nil {
		return err
	}
	c := &metadataChannel{name: m.Name + rule.MetaSuffix, blank: true, buf: make([]byte, m.metaSize())}
	if err := m.openMeta(c); err != nil {
		return err
	}
	m.file.meta = c
	m.writeMetadata()
	return nil
}

// openMeta opens the metadata channel's file, or creates it if there is none. From an existing file it reads the
// metadata of the mirror's newest frame. m.mu must be held.
func (m *Mirror) openMeta(c *metadataChannel) error {
	ch, err := m.Dir.TryOpen(c.name)
	if errors.Is(err, fs.ErrNotExist) {
		return m.createMeta(c)
	}
	if errors.Is(err, localach.ErrForeign) {
		return fmt.Errorf("%w; give the mirror another name with --as, or leave meta out", err)
	}
	if err != nil {
		return fmt.Errorf("%w; end the programs that use it, then `achbridge channel rm %s`; or leave meta out", err, c.name)
	}
	if !isMeta(ch) {
		ch.Close()
		return fmt.Errorf("%s: a channel of that name exists and is not the metadata channel of %s; give the mirror another name with --as, or leave meta out", c.name, m.Name)
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
			c.frame, c.lastWritten, c.blank = last, last, false
		}
	}
	return nil
}

// createMeta creates the metadata channel's file, with the permissions of the mirror's file. m.mu must be held.
func (m *Mirror) createMeta(c *metadataChannel) error { return m.makeMeta(c, localach.CreateConfig{}) }

// replaceMeta is like createMeta, but replaces an existing file. m.mu must be held.
func (m *Mirror) replaceMeta(c *metadataChannel) error {
	return m.makeMeta(c, localach.CreateConfig{Replace: true})
}

func (m *Mirror) makeMeta(c *metadataChannel, cfg localach.CreateConfig) error {
	count := m.file.ch.Geometry().FrameCount
	if m.IsMerge {
		count *= 2 // room for changes of link states, which must not overwrite the origins of frames that the output still has
	} else {
		count = min(count, mostMetaFrames)
	}
	g := localach.Geometry{FrameCount: max(count, leastMetaFrames), FrameSize: m.metaSize()}.Grow()
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

// metaSize returns the size of the metadata channel's frames in bytes.
func (m *Mirror) metaSize() int {
	if m.IsMerge {
		return status.MergeMetaSize
	}
	return status.MetaSize
}

// notePut writes the metadata of the frame that was just put. m.mu must be held.
func (m *Mirror) notePut(captured time.Duration, at Reading) {
	if m.file.meta == nil {
		return
	}
	f := &m.file.meta.frame
	m.file.meta.of = m.channel().file.ch
	f.Epoch, f.Seq, f.MirrorSeq, f.Safe = m.file.tag.Epoch, m.file.tag.Seq, m.file.putSeq, false
	f.Put = m.Clock.Of(m.deadlineMonitor.last)
	m.noteCaptured(captured, at)
	m.writeMetadata()
}

// noteCaptured sets the frame's capture time and its uncertainty, without writing them. m.mu must be held, and
// the metadata channel must exist.
func (m *Mirror) noteCaptured(captured time.Duration, at Reading) {
	f := &m.file.meta.frame
	f.Captured, f.Uncertainty = 0, 0
	if captured != 0 && at.Known {
		f.Captured, f.Uncertainty = m.Clock.Of(captured-at.Offset), at.Uncertainty
	}
}

// noteSafe writes into the metadata channel that the safe frame was put. m.mu must be held.
func (m *Mirror) noteSafe(now time.Duration) {
	if m.file.meta == nil {
		return
	}
	f := &m.file.meta.frame
	f.MirrorSeq, f.Safe, f.Captured, f.Uncertainty = m.file.putSeq, true, 0, 0
	f.Put = m.Clock.Of(now)
	m.writeMetadata()
}

// noteEmpty writes into the metadata channel that the mirror has a new file without a frame. m.mu must be held.
func (m *Mirror) noteEmpty() {
	if m.file.meta != nil {
		m.file.meta.frame = status.Meta{Epoch: m.file.tag.Epoch, Input: m.file.meta.frame.Input}
		m.writeMetadata()
	}
}

// FellSilent records that nothing is received any more from the host that feeds the mirror.
func (m *Mirror) FellSilent() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.source.silent = true
	m.writeMetadata()
}

// OriginReturned records that the host that feeds the mirror is sending again.
func (m *Mirror) OriginReturned() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.source.silent = false
	m.writeMetadata()
}

// writeMetadata writes changed metadata into the metadata channel. It does not block: if the channel's lock is taken, a
// later call writes the metadata. m.mu must be held.
func (m *Mirror) writeMetadata() {
	c, to := m.file.meta, m.channel().file.meta
	if c == nil || to == nil || m.IsMerge {
		return
	}
	if m.Into != nil && c.of != m.Into.file.ch { // the output has a new file, without the frame that MirrorSeq names
		c.frame, c.of = status.Meta{Epoch: m.file.tag.Epoch, Origin: m.Host}, m.Into.file.ch
	}
	c.frame.Link, c.frame.Stale, c.frame.Deadline = m.metaLink(), m.deadlineMonitor.isStale(), m.qos.Deadline
	if c.frame == c.lastWritten && !c.blank || c.retry != 0 && m.Clock.now() < c.retry {
		return
	}
	c.retry = 0
	_, err := to.w.TryPut(c.frame.Append(to.buf[:0]))
	c.isBusy = IsBusy(err)
	switch {
	case err != nil:
		c.retry = m.Clock.now() + metaRetry
	default:
		c.lastWritten, c.blank = c.frame, false
	}
}

// metaLink returns the link state for the metadata. m.mu must be held, and the metadata channel must exist.
func (m *Mirror) metaLink() status.MetaLink {
	switch {
	case m.file.meta.isEnded:
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

// Tend records the mirror's frame counters for LostShare and repairs the file of the metadata channel. Once at
// holds the peer's clock, Tend also writes the age of a frame that arrived before the clock was known. The node
// calls Tend several times a second.
func (m *Mirror) Tend(at Reading) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counters.recent.Keep(at.Now, m.frameCounters())
	c := m.file.meta
	if c == nil {
		return
	}
	if m.Into == nil {
		if err := c.ch.Check(); err != nil || c.w.Stuck() > wedgedAfter {
			m.renewMeta(err)
		}
	}
	if c.frame.Captured == 0 && m.frames.capturedAt != 0 && !c.frame.Safe && c.frame.Seq == m.file.tag.Seq {
		m.noteCaptured(m.frames.capturedAt, at)
	}
	m.writeMetadata()
}

// renewMeta replaces the metadata channel's file, unless another program has replaced it. err is the file's
// error; nil means that its waiting readers cannot be woken. m.mu must be held.
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
			m.Log.Warn("metadata channel of a mirror is not usable", "channel", c.name, "peer", m.Host, "err", err)
		}
		return
	}
	c.failure, c.retry = "", 0
	m.Space.add(-FileBytes(old.Geometry()), "")
	m.discard(old, oldWriter)
}

// endMeta closes the metadata channel and removes its file. m.mu must be held.
func (m *Mirror) endMeta() {
	if m.file.meta == nil {
		return
	}
	if m.Into == nil && m.file.meta.ch.Check() == nil {
		_ = m.Dir.Unlink(m.file.meta.name)
	}
	m.closeMeta()
}

// closeMeta writes into the metadata channel that the mirror is no longer fed, and closes it. The file remains.
// m.mu must be held.
func (m *Mirror) closeMeta() {
	c := m.file.meta
	if c == nil {
		return
	}
	c.isEnded, c.retry = true, 0
	m.writeMetadata()
	m.file.meta = nil
	if m.Into != nil {
		return
	}
	m.Space.add(-FileBytes(c.ch.Geometry()), "")
	m.letGo(c.ch, c.w)
}
