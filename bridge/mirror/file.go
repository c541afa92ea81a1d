package mirror

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"time"

	"achbridge/bridge/rule"
	"achbridge/localach"
	"achbridge/wire"
)

// file holds a mirror's file, its metadata channel and put record, and the state of its frames. It is guarded by
// the mirror's mu.
type file struct {
	adopt         []string               // patterns of existing channels, not created by achbridge, that the mirror may write into
	planned       *localach.CreateConfig // how to create the file; nil if it exists or there must be none
	ch            *localach.Channel      // nil if the file is not open
	w             *localach.Writer       // writer of ch
	tag           localach.Tag           // tag of ch; its Seq is the newest frame that the file holds
	putSeq        uint64                 // last_seq after our last put, or when the file was opened
	least         uint64                 // newest frame of a file that was replaced: older frames are not put
	owned         bool                   // achbridge created the file and may replace it
	countedFor    string                 // the host argument for Space.take
	puts          *putRecord             // record of the puts into an adopted channel, or into the output of a merge; nil if none was opened
	merged        map[uint64]*putRecord  // only in the output of a merge: the put records of its mirrors, by their channelHash
	lost          int                    // in the output of a merge: number of its files that were lost; in a mirror of it: the number when it opened its record
	kernel        *kernelCopy            // copy of ch in the kernel; nil if there is none
	meta          *metadataChannel       // metadata channel; nil if there is none
	foreignWriter foreignWriter
	replaced      uint64        // number of files that were replaced
	healedAt      time.Duration // when a damaged file was last replaced, by Clock; 0 means never
}

// open begins to use ch.
func (f *file) open(ch *localach.Channel) {
	f.ch, f.w, f.putSeq = ch, ch.Writer(), ch.LastSeq()
	f.foreignWriter.lastAttributed = f.putSeq
}

// Open prepares the mirror's file for the frames of channel c, whose origin is node. If qos has meta, it also
// opens the metadata channel. wide is the host argument for Space.take. It returns an error if there can be no
// file. Before a mirror of a merge is opened, its output must be open.
func (m *Mirror) Open(c wire.Channel, node [16]byte, wide string, qos rule.QoS) error {
	if m.Into != nil {
		return m.openRecord(node)
	}
	m.countFor(wide)
	if err := m.openFile(c, node); err != nil {
		return err
	}
	return m.accompany(qos)
}

// openFile prepares the mirror's file for channel c of origin node. It reopens its own file. If there is no
// file, it plans one, if there is room; make creates it when the origin lets us read. Any other file is left
// unchanged, unless adopt matches it.
func (m *Mirror) openFile(c wire.Channel, node [16]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.health.phase == closed {
		return errClosed
	}
	if m.file.ch != nil {
		err := m.file.ch.Check()
		if err == nil {
			m.file.tag.Node = node
			return nil
		}
		if errors.Is(err, localach.ErrReinitialised) {
			m.forgetPuts()
		}
		if damaged := m.damage(err); damaged != nil {
			if !m.mayHeal() {
				return fmt.Errorf("%s: it was damaged again, and gets a new file %v after the last one: %w", m.Name, healAgain, damaged)
			}
			if err := m.heal(damaged); err != nil {
				return err
			}
			m.file.tag.Node = node
			return nil
		}
		m.file.lost++
	}
	m.closeFile()
	if err := localach.CheckName(m.Name); err != nil {
		return fmt.Errorf("%w; give it another with --as NAME", err)
	}
	id := localach.Tag{Node: node, Channel: channelHash(m.Host, m.Channel)}
	ch, err := m.Dir.TryOpen(m.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		m.file.owned, m.file.tag, m.file.putSeq = true, id, 0
		if m.planFor(geometryFor(c)) == nil {
			return nil
		}
		return m.planFor(geometryOf(c))
	case err == nil && isMeta(ch):
		ch.Close()
		return fmt.Errorf("%s: it is the metadata channel of another mirror; give this mirror another name with --as", m.Name)
	case err == nil && !madeByUs(ch):
		m.file.owned = false
		if !rule.Matches(m.file.adopt, m.Name) {
			whose := strangeness(ch)
			ch.Close()
			return fmt.Errorf("%s: a channel of that name exists that %s; choose another name with --as, or allow writing into it with --adopt %s", m.Name, whose, m.Name)
		}
		if err := ch.Check(); err != nil {
			ch.Close()
			return fmt.Errorf("%w; achbridge did not make it: make it again", err)
		}
		err := ch.Reserve()
		if err == nil {
			err = m.remember()
		}
		if err != nil {
			ch.Close()
			return err
		}
	case err == nil:
		if err := fill(ch); err != nil {
			ch.Close()
			return err
		}
		m.file.owned = true
		m.Space.add(FileBytes(ch.Geometry()), m.file.countedFor)
	case errors.Is(err, localach.ErrCorrupt):
		err = fmt.Errorf("%s: %w; end the programs that use it, then `achbridge channel rm %s`", m.Name, err, m.Name)
	case errors.Is(err, localach.ErrForeign):
		err = fmt.Errorf("%s: %w; choose another name with --as", m.Name, err)
	}
	if err != nil {
		return err
	}
	m.use(ch, id)
	if m.IsMerge {
		return m.openRecords()
	}
	return nil
}

var errClosed = errors.New("the mirror has ended")

// madeByUs reports whether a daemon of our user created the file.
func madeByUs(ch *localach.Channel) bool { return ch.OwnTag() != (localach.Tag{}) }

// strangeness returns why the file is not ours, as a predicate for an error.
func strangeness(ch *localach.Channel) string {
	if ch.Tag() == (localach.Tag{}) {
		return "is not a mirror"
	}
	return fmt.Sprintf("is a mirror of user %d, and we are user %d", ch.Owner(), os.Geteuid())
}

// fill reserves the memory of our existing file, so that no put fails for lack of memory. It returns an error if
// the file is larger than MaxBytes.
func fill(ch *localach.Channel) error {
	if size := FileBytes(ch.Geometry()); size > MaxBytes {
		return fmt.Errorf("the file there, of %d MiB, is %w: one may have %d", size>>20, errTooLarge, MaxBytes>>20)
	}
	return ch.Reserve()
}

// planFor plans a file of geometry g, which make creates later. It returns an error if there is no room for it.
// m.mu must be held.
func (m *Mirror) planFor(g localach.Geometry) error {
	cfg := localach.CreateConfig{Geometry: g.Grow(), Mode: fs.FileMode(m.Mode)}
	size := FileBytes(cfg.Geometry)
	if err := m.Space.take(size, m.file.countedFor); err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	m.Space.add(-size, m.file.countedFor)
	m.file.planned = &cfg
	return nil
}

// make creates the planned file, if there is one. It is called late, so that a channel that we may not read
// leaves no file. m.mu must be held.
func (m *Mirror) make() error {
	if m.Into != nil {
		return m.Into.make()
	}
	if m.file.planned == nil {
		return nil
	}
	cfg := *m.file.planned
	cfg.Tag = m.file.tag
	m.file.planned = nil // if it cannot be created, the node's next check opens it again
	ch, err := m.create(cfg)
	if err != nil {
		return err
	}
	m.file.open(ch)
	m.copyToKernel()
	if err := m.attend(m.qos); err != nil {
		_ = m.Dir.Unlink(m.Name) // created just now; the user wants no mirror without its metadata channel
		m.closeFile()
		m.file.planned = &cfg
		return err
	}
	m.emptyMetadata()
	return nil
}

// create creates a file if there is room for it. m.mu must be held.
func (m *Mirror) create(cfg localach.CreateConfig) (*localach.Channel, error) {
	size := FileBytes(cfg.Geometry)
	if err := m.Space.take(size, m.file.countedFor); err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	ch, err := m.Dir.Create(m.Name, cfg)
	if err != nil {
		m.Space.add(-size, m.file.countedFor)
	}
	return ch, err
}

// use makes ch the mirror's file and restores which frame it holds. m.mu must be held.
func (m *Mirror) use(ch *localach.Channel, id localach.Tag) {
	m.file.open(ch)
	m.file.tag = ch.Tag()
	ours := m.file.owned && m.file.putSeq > 0
	if !m.file.owned {
		m.file.tag, ours = m.file.puts.recall(ch)
	}
	if m.file.tag.Channel != id.Channel {
		m.file.tag, ours = id, m.file.owned && ours
	}
	m.file.tag.Node = id.Node
	if m.file.owned {
		m.file.mark(ch)
	}
	m.copyToKernel()
	if ours && !m.endsSafe() {
		m.deadlineMonitor.armed = true // possibly a command that an earlier daemon put
	}
}

// remember opens the put record of an adopted channel. If that fails, the mirror cannot be opened, since frames
// could be put twice. m.mu must be held.
func (m *Mirror) remember() error {
	if m.file.puts != nil {
		return nil
	}
	r, err := openPutRecord(m.Dir, m.Name)
	if err != nil {
		return fmt.Errorf("%s: what is put into it cannot be remembered: %w", m.Name, err)
	}
	m.file.puts = r
	return nil
}

// mark records that tag.Seq is the newest frame in ch.
func (f *file) mark(ch *localach.Channel) { f.markNext(ch, f.tag.Seq, 0) }

// markNext records that frame seq of the origin will be the newest in ch after the given number of further puts. If the process is
// killed, one of these may be missing. The record is the put record if there is one (adopted channels, merges), else the file's tag.
func (f *file) markNext(ch *localach.Channel, seq, puts uint64) {
	if !f.owned {
		f.puts.note(ch, f.tag, seq)
		return
	}
	tag := f.tag
	tag.Seq = seq
	ch.SetTag(tag, puts)
}

// Remove removes the mirror's file. If the file under this name is not ours, Remove keeps it and returns an
// error.
func (m *Mirror) Remove() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endMeta()
	if m.Into == nil && !m.Temporary {
		m.endKernelCopy(true)
	}
	switch gone := m.Into != nil || m.gone(); {
	case gone:
		return nil
	case m.file.ch == nil || !m.file.owned || m.file.ch.Tag() == (localach.Tag{}) || errors.Is(m.file.ch.Check(), localach.ErrReplaced):
		return fmt.Errorf("%s is not mirrored any more, but its file stays: achbridge did not make it", m.Name)
	}
	return m.Dir.Unlink(m.Name)
}

// gone reports whether there is no file with the mirror's name. m.mu must be held.
func (m *Mirror) gone() bool {
	if m.file.ch != nil {
		return errors.Is(m.file.ch.Check(), localach.ErrUnlinked)
	}
	ch, err := m.Dir.TryOpen(m.Name)
	if err == nil {
		ch.Close()
	}
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, localach.ErrName)
}

// closeFile closes the file, if it is open. m.mu must be held.
func (m *Mirror) closeFile() {
	m.file.planned = nil
	if m.file.w == nil {
		return
	}
	m.endKernelCopy(false)
	w, ch := m.file.w, m.file.ch
	m.file.w, m.file.ch = nil, nil
	if m.file.owned {
		m.Space.add(-FileBytes(ch.Geometry()), m.file.countedFor)
	}
	m.letGo(ch, w)
}

// letGo closes a file in its own goroutine, since a broadcast of the writer may hang.
func (m *Mirror) letGo(ch *localach.Channel, w *localach.Writer) {
	m.Spawn(func() {
		w.Close()
		ch.Close()
	})
}

// discard closes a file that was replaced, in its own goroutine. Programs that have the file open get the error
// CORRUPT.
func (m *Mirror) discard(ch *localach.Channel, w *localach.Writer) {
	m.Spawn(func() {
		ch.Poison()
		w.Close()
		ch.Close()
	})
}

// Close closes the mirror and returns true. If the safe frame must be put and the file's lock is taken, Close
// returns false. A goroutine then retries up to lastTrials times, every busyRetry, closes the mirror and calls
// closed.
func (m *Mirror) Close(closed func()) bool {
	if !m.putLast() {
		m.shut()
		return true
	}
	m.Spawn(func() {
		for range lastTrials {
			time.Sleep(busyRetry)
			if !m.putLast() {
				break
			}
		}
		m.shut()
		closed()
	})
	return false
}

func (m *Mirror) shut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopDeadlineMonitor()
	m.closeMeta()
	m.closeFile()
	m.closeRecords()
}

// countFor sets the host argument for Space.take. It has no effect while the file is open.
func (m *Mirror) countFor(host string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file.ch == nil {
		m.file.countedFor = host
	}
}

func geometryOf(c wire.Channel) localach.Geometry {
	return localach.Geometry{FrameCount: c.FrameCount, FrameSize: c.FrameSize}
}

// geometryFor returns the geometry of a new mirror of c. Its frame size is at least the largest frame seen in c.
func geometryFor(c wire.Channel) localach.Geometry {
	g := geometryOf(c)
	g.FrameSize = min(max(g.FrameSize, c.Largest), LargestFrame(c))
	return g
}

// dataBytes returns the size of the largest frame that a channel of geometry g can hold.
func dataBytes(g localach.Geometry) int { return g.FrameCount * g.FrameSize }

// channelHash returns the identity of a channel for the tag of its mirror.
func channelHash(host, channel string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(host + "/" + channel))
	return h.Sum64()
}
