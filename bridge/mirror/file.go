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

// file is a mirror's file, with those beside it, and what achbridge knows of its frames. It is under the mirror's mu.
type file struct {
	adopt      []string               // existing channels, not made by achbridge, that it may be
	planned    *localach.CreateConfig // of the file, until it is made; nil: there is one, or is to be none
	ch         *localach.Channel      // nil: it is not open
	w          *localach.Writer       // of ch
	tag        localach.Tag           // Seq is the newest frame that the file holds
	putSeq     uint64                 // what our last put returned
	least      uint64                 // newest frame of a file that was replaced: older ones are not put
	owned      bool                   // we made it and may replace it
	countedFor string                 // as whose its memory is counted, as for Space.take
	puts       *putRecord             // what was put into a file that is not ours; nil: none was opened yet
	meta       *companion             // nil: none
	contest    contest
	replaced   uint64        // files that were replaced
	healedAt   time.Duration // when the last damaged one was, by Clock; 0: never
}

// open begins to use ch.
func (f *file) open(ch *localach.Channel) {
	f.ch, f.w, f.putSeq = ch, ch.Writer(), ch.LastSeq()
	f.contest.seen = f.putSeq
}

// Open prepares the mirror's file, and its companion's if qos asks for one, for the frames of
// channel c, which host node puts first. The file's memory counts as that of wide, as for
// space.take. An error says why there can be no file.
func (m *Mirror) Open(c wire.Channel, node [16]byte, wide string, qos rule.QoS) error {
	m.countFor(wide)
	if err := m.openFile(c, node); err != nil {
		return err
	}
	return m.accompany(qos)
}

// openFile makes the mirror's file usable for what c, first put by node, describes: its
// own file is taken up again, a missing one is planned if there is room for it, and
// made when the origin lets us read (make); any other is left alone.
func (m *Mirror) openFile(c wire.Channel, node [16]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file.ch != nil {
		err := m.file.ch.Check()
		if err == nil {
			m.file.tag.Node = node
			return nil
		}
		if m.file.puts != nil && errors.Is(err, localach.ErrReinitialised) {
			m.file.puts.forget()
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
		return fmt.Errorf("%s: it is the companion of another mirror, which has meta; give this one another name with --as", m.Name)
	case err == nil && !madeByUs(ch):
		m.file.owned = false
		if !rule.Matches(m.file.adopt, m.Name) {
			whose := strangeness(ch)
			ch.Close()
			return fmt.Errorf("%s: there is a channel of that name that %s; choose another name with --as, or allow writing into it with --adopt %s", m.Name, whose, m.Name)
		}
		if err := ch.Check(); err != nil {
			ch.Close()
			return fmt.Errorf("%w; it is not ours to replace: make it anew", err)
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
	return nil
}

// madeByUs reports whether a file is one that a daemon of our user made.
func madeByUs(ch *localach.Channel) bool { return ch.OwnTag() != (localach.Tag{}) }

// strangeness says why a file is not one of ours.
func strangeness(ch *localach.Channel) string {
	if ch.Tag() == (localach.Tag{}) {
		return "is not a mirror"
	}
	return fmt.Sprintf("is a mirror of user %d, and we are user %d", ch.Owner(), os.Geteuid())
}

// fill takes the memory of a mirror's file that is there, so that no put meets a hole. Somebody
// else's file is not made to take any.
func fill(ch *localach.Channel) error {
	if size := FileBytes(ch.Geometry()); size > MaxBytes {
		return fmt.Errorf("the file there, of %d MiB, is %w: one may have %d", size>>20, errTooLarge, MaxBytes>>20)
	}
	return ch.Reserve()
}

// planFor has the file made as soon as it is needed, or says why there is no room for
// it. Needs m.mu.
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

// make makes the file that was planned: a channel that may not be read is to leave
// none behind. Needs m.mu.
func (m *Mirror) make() error {
	if m.file.planned == nil {
		return nil
	}
	cfg := *m.file.planned
	cfg.Tag = m.file.tag
	m.file.planned = nil // if it cannot be made, the node's next look opens it anew
	ch, err := m.create(cfg)
	if err != nil {
		return err
	}
	m.file.open(ch)
	if err := m.attend(m.qos); err != nil {
		_ = m.Dir.Unlink(m.Name) // made a moment ago: the user wants no mirror without its companion
		m.closeFile()
		m.file.planned = &cfg
		return err
	}
	return nil
}

// create makes a file if there is room for it. Needs m.mu.
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

// use needs m.mu.
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
		m.file.mark()
	}
	if ours && !m.endsSafe() {
		m.vigil.armed = true // a command of our last life, maybe
	}
}

// remember opens the record of what was put into a channel that is not ours. Without
// one a frame might be put twice, so that there is no mirror then. Needs m.mu.
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

// mark writes down what the newest frame of the file is.
func (f *file) mark() { f.markNext(f.tag.Seq, 0) }

// markNext writes down which frame of the origin the newest of the file is after that
// many more puts, of which a crash may leave out one: in a file of ours, or in the
// record of one that is not.
func (f *file) markNext(seq, puts uint64) {
	if !f.owned {
		f.puts.note(f.ch, f.tag, seq)
		return
	}
	tag := f.tag
	tag.Seq = seq
	f.ch.SetTag(tag, puts)
}

// Remove takes the mirror's file away. What lies under the name and is not ours
// stays, and is an error that says so.
func (m *Mirror) Remove() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endMeta()
	switch gone := m.gone(); {
	case gone:
		return nil
	case m.file.ch == nil || !m.file.owned || m.file.ch.Tag() == (localach.Tag{}) || errors.Is(m.file.ch.Check(), localach.ErrReplaced):
		return fmt.Errorf("%s is not mirrored any more, but its file stays: achbridge did not make it", m.Name)
	}
	return m.Dir.Unlink(m.Name)
}

// gone reports that there is no file under the mirror's name. Needs m.mu.
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

// closeFile needs m.mu.
func (m *Mirror) closeFile() {
	m.file.planned = nil
	if m.file.w == nil {
		return
	}
	w, ch := m.file.w, m.file.ch
	m.file.w, m.file.ch = nil, nil
	if m.file.owned {
		m.Space.add(-FileBytes(ch.Geometry()), m.file.countedFor)
	}
	m.letGo(ch, w)
}

// letGo closes a file in a goroutine of its own: a broadcast of the writer may hang.
func (m *Mirror) letGo(ch *localach.Channel, w *localach.Writer) {
	m.Spawn(func() {
		w.Close()
		ch.Close()
	})
}

// discard is letGo of a file that was replaced: those who have it open get CORRUPT. That takes
// time too.
func (m *Mirror) discard(ch *localach.Channel, w *localach.Writer) {
	m.Spawn(func() {
		ch.Poison()
		w.Close()
		ch.Close()
	})
}

// Close lets go of the mirror at once, unless somebody sits on its lock while a safe
// frame is owed: then it takes up to lastTrials of busyRetry, in a goroutine that calls
// closed at its end, and close returns false.
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
	m.endVigil()
	m.closeMeta()
	m.closeFile()
	if m.file.puts != nil {
		m.file.puts.close()
		m.file.puts = nil
	}
}

// countFor sets as whose the memory of the mirror's file is counted, if there is none yet:
// for host as in space.take.
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

// geometryFor is that of a mirror whose frame size is no less than the largest frame of
// c that was seen.
func geometryFor(c wire.Channel) localach.Geometry {
	g := geometryOf(c)
	g.FrameSize = min(max(g.FrameSize, c.Largest), LargestFrame(c))
	return g
}

// dataBytes is the largest frame that a channel of a geometry can hold.
func dataBytes(g localach.Geometry) int { return g.FrameCount * g.FrameSize }

// channelHash tells in a mirror's tag which channel it is of.
func channelHash(host, channel string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(host + "/" + channel))
	return h.Sum64()
}
