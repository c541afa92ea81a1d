package mirror

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/localach/damage"
	"achbridge/wire"
)

// bareAdopted returns a mirror without a node, of a channel with epoch 1. If adopted is set, the mirror's file
// must exist.
func bareAdopted(dir localach.Dir, name string, adopted bool) (*Mirror, error) {
	var work sync.WaitGroup
	quiet := slog.New(slog.DiscardHandler)
	m := New(Config{Name: name, Host: "robot", Channel: name, Dir: dir, Space: NewSpace(dir), Log: quiet, Events: &status.Journal{Log: quiet}, Spawn: work.Go, Clock: Clock{Now: sinceStart}}, rule.QoS{}, nil)
	if adopted {
		m.file.adopt = []string{name}
	}
	if err := m.openFile(wire.Channel{Name: name, FrameCount: 16, FrameSize: 64, Epoch: 1}, [16]byte{1}); err != nil {
		return nil, err
	}
	m.expect(1, rule.QoS{})
	m.mu.Lock()
	defer m.mu.Unlock()
	return m, m.make()
}

// adoptedMirror returns a mirror that writes into an adopted channel.
func adoptedMirror(t *testing.T, dir localach.Dir, name string) *Mirror {
	t.Helper()
	m, err := bareAdopted(dir, name, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.abandon)
	return m
}

// abandon releases the mirror's file like a daemon that is killed: nothing more is put.
func (m *Mirror) abandon() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closeFile()
}

// anothersChannel creates a channel as another program of the host would.
func anothersChannel(t *testing.T, dir localach.Dir, name string) *localach.Channel {
	t.Helper()
	ch, err := dir.Create(name, localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 16, FrameSize: 64}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ch.Close() })
	return ch
}

func TestPutRecordNamesNewestFrame(t *testing.T) {
	tag := localach.Tag{Node: [16]byte{1}, Channel: 2, Epoch: 3, Seq: 10}
	foreign := func(ch *localach.Channel) {
		w := ch.Writer()
		defer w.Close()
		if _, err := w.Put([]byte("theirs")); err != nil {
			panic(err)
		}
	}
	for what, c := range map[string]struct {
		then func(ch *localach.Channel)
		want uint64
		last bool // whether the mirror has put the newest frame
	}{
		"killed before the put":               {func(*localach.Channel) {}, 10, true},
		"killed after it":                     {foreign, 13, true},
		"somebody else put instead, and more": {func(ch *localach.Channel) { foreign(ch); foreign(ch) }, 13, false},
	} {
		dir := testDir(t)
		ch := anothersChannel(t, dir, "goal")
		r, err := openPutRecord(dir, "goal")
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := r.recall(ch); got != (localach.Tag{}) {
			t.Errorf("new record: got %+v, want it empty", got)
		}
		r.note(ch, tag, 13)
		r.close() // the daemon is killed here
		c.then(ch)
		if r, err = openPutRecord(dir, "goal"); err != nil {
			t.Fatal(err)
		}
		want := tag
		want.Seq = c.want
		if got, last := r.recall(ch); got != want || last != c.last {
			t.Errorf("%s: got %+v, newest is ours %v; want %+v, %v", what, got, last, want, c.last)
		}
		r.close()
	}
}

func TestPutRecordOfOtherFileIsIgnored(t *testing.T) {
	tag := localach.Tag{Node: [16]byte{1}, Channel: 2, Epoch: 3, Seq: 10}
	for what, change := range map[string]func(dir localach.Dir){
		"made anew": func(dir localach.Dir) {
			if err := dir.Unlink("goal"); err != nil {
				t.Fatal(err)
			}
			w := anothersChannel(t, dir, "goal").Writer()
			defer w.Close()
			for range 5 {
				if _, err := w.Put([]byte("theirs")); err != nil {
					t.Fatal(err)
				}
			}
		},
		"initialised again": func(dir localach.Dir) { damage.Write(t, dir, "goal", lastSeqWord, make([]byte, 8)) },
	} {
		dir := testDir(t)
		ch := anothersChannel(t, dir, "goal")
		w := ch.Writer()
		for range 5 {
			if _, err := w.Put([]byte("one")); err != nil {
				t.Fatal(err)
			}
		}
		w.Close()
		r, err := openPutRecord(dir, "goal")
		if err != nil {
			t.Fatal(err)
		}
		r.note(ch, tag, 13)
		change(dir)
		now, err := dir.Open("goal")
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := r.recall(now); got != (localach.Tag{}) {
			t.Errorf("%s: got %+v, want nothing remembered", what, got)
		}
		now.Close()
		r.close()
	}
}

// The mirror noticed that the channel was initialised again. The channel has more frames than before when the
// mirror opens it again.
func TestReinitializedAdoptedChannelHasNoRecord(t *testing.T) {
	dir := testDir(t)
	anothersChannel(t, dir, "goal")
	m := adoptedMirror(t, dir, "goal")
	for seq := range uint64(5) {
		m.Put(Arrival{From: m.source.feed, Epoch: 1, Seq: seq + 1, Data: frame(seq+1, 64)})
	}
	lastSeq := func(n uint64) { damage.Write(t, dir, "goal", lastSeqWord, binary.NativeEndian.AppendUint64(nil, n)) }
	lastSeq(1)
	if err := m.file.ch.Check(); !errors.Is(err, localach.ErrReinitialised) {
		t.Fatalf("got %v, want that it was initialised again", err)
	}
	lastSeq(20)
	if err := m.openFile(wire.Channel{Name: "goal", FrameCount: 16, FrameSize: 64, Epoch: 1}, [16]byte{1}); err != nil {
		t.Fatal(err)
	}
	if m.file.tag.Seq != 0 {
		t.Errorf("got frame %d remembered of what is gone, want none", m.file.tag.Seq)
	}
}

// lastSeqWord is the offset of last_seq in a channel's header: its last word.
const lastSeqWord = 312

func TestPutRecordIgnoresFilesOfOtherUsers(t *testing.T) {
	dir, elsewhere := testDir(t), testDir(t)
	path := func(name string) string { return filepath.Join(string(dir), recordPrefix+name) }
	ch := anothersChannel(t, dir, "goal")
	lie := localach.Tag{Node: [16]byte{9}, Channel: 9, Epoch: 9, Seq: 1 << 40}
	forged := func(name string, mode fs.FileMode) string { // a record as we would write it
		r, err := makeRecord(elsewhere, "goal")
		if err != nil {
			t.Fatal(err)
		}
		r.note(ch, lie, lie.Seq)
		r.close()
		list, _ := filepath.Glob(filepath.Join(string(elsewhere), recordPrefix+"*"))
		if err := errors.Join(os.Chmod(list[0], mode), os.Rename(list[0], filepath.Join(string(elsewhere), name))); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(string(elsewhere), name)
	}
	err := errors.Join(
		os.Symlink(forged("linked", 0o600), path("0000000000000000")),
		os.Rename(forged("open", 0o666), path("0000000000000001")),
		unix.Mkfifo(path("0000000000000002"), 0o600),
		os.Mkdir(path("0000000000000003"), 0o700),
		os.WriteFile(path("0000000000000004"), nil, 0o600),
		os.WriteFile(path("0000000000000005"), make([]byte, recordBytes), 0o600),
	)
	if os.Geteuid() == 0 { // only root can create a file of another user
		theirs := forged("theirs", 0o600)
		err = errors.Join(err, os.Chown(theirs, 65534, 65534), os.Rename(theirs, path("0000000000000006")))
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := openPutRecord(dir, "goal")
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if got, _ := r.recall(ch); got != (localach.Tag{}) {
		t.Fatalf("got %+v from somebody else's file", got)
	}
	tag := localach.Tag{Node: [16]byte{1}, Channel: 2, Epoch: 3, Seq: 10}
	r.note(ch, tag, tag.Seq)
	again, err := openPutRecord(dir, "goal")
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	if got, _ := again.recall(ch); got != tag {
		t.Errorf("got %+v, want our own record again: %+v", got, tag)
	}
	if other, err := openPutRecord(dir, "goal2"); err != nil {
		t.Error(err)
	} else if got, _ := other.recall(ch); got != (localach.Tag{}) {
		t.Errorf("got %+v, want that another channel has a record of its own", got)
	}
}

// Without a record a frame might be put twice, so no frame is put at all.
func TestAdoptedChannelWithoutRecordIsNotWritten(t *testing.T) {
	dir := testDir(t)
	anothersChannel(t, dir, "goal")
	if os.Geteuid() == 0 { // permissions do not restrict root
		if err := errors.Join(os.Chown(string(dir), nobody, nobody), os.Chown(dir.Path("goal"), nobody, nobody)); err != nil {
			t.Fatal(err)
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		unix.SetfsuidRetUid(nobody)
		defer unix.SetfsuidRetUid(0)
	}
	if err := os.Chmod(string(dir), 0o500); err != nil {
		t.Fatal(err)
	}
	_, err := bareAdopted(dir, "goal", true)
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "remembered") {
		t.Errorf("got %v, want an error that names the missing record", err)
	}
	if err := os.Chmod(string(dir), 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestPutRecordNoteAllocatesNothing(t *testing.T) {
	dir := testDir(t)
	ch := anothersChannel(t, dir, "goal")
	m := adoptedMirror(t, dir, "goal")
	seq := uint64(0)
	if got := testing.AllocsPerRun(1000, func() {
		seq++
		m.mu.Lock()
		m.file.markNext(m.file.ch, seq, 1)
		m.mu.Unlock()
	}); got != 0 {
		t.Errorf("got %v allocations for a note, want none", got)
	}
	if ch.LastSeq() != 0 {
		t.Error("a note has put a frame")
	}
}

// A frame whose put waits for the lock must not be recorded as the newest. The put may fail, or another program may put
// a frame first.
func TestWaitingFrameIsNotRecorded(t *testing.T) {
	for _, adopted := range []bool{false, true} {
		dir := testDir(t)
		if adopted {
			anothersChannel(t, dir, "goal")
		}
		m, err := bareAdopted(dir, "goal", adopted)
		if err != nil {
			t.Fatal(err)
		}
		m.Put(came(1, frame(1, 64)))
		damage.TakeLock(t, dir, "goal")
		m.Put(came(5, frame(5, 64)))
		m.mu.Lock() // retryPut runs concurrently
		got := m.file.ch.Tag().Seq
		if adopted {
			damage.Write(t, dir, "goal", lastSeqWord, binary.NativeEndian.AppendUint64(nil, 2))
			tag, _ := m.file.puts.recall(m.file.ch)
			got = tag.Seq
		}
		m.mu.Unlock()
		if got != 1 {
			t.Errorf("adopted %v: frame %d is remembered, and 1 was put", adopted, got)
		}
		m.abandon()
	}
}

// If a daemon was killed before it put the safe frame into an adopted channel, the next daemon puts it.
func TestSafeFrameIsDueInAdoptedChannelAfterRestart(t *testing.T) {
	dir := testDir(t)
	ch := anothersChannel(t, dir, "goal")
	qos := rule.QoS{Class: rule.Command, Deadline: time.Second, OnStale: rule.OnStale{File: "stop", Frame: "stop"}}
	killed := adoptedMirror(t, dir, "goal")
	killed.putNext(Arrival{From: killed.source.feed, Epoch: 1, Seq: 1, Data: frame(1, 64)})
	isPending := func() bool {
		m := adoptedMirror(t, dir, "goal")
		m.mu.Lock()
		defer m.mu.Unlock()
		m.qos = qos
		return m.deadlineMonitor.armed
	}
	if !isPending() {
		t.Error("got no pending safe frame, want one: the newest frame is a command of the former daemon")
	}
	w := ch.Writer()
	defer w.Close()
	if _, err := w.Put([]byte("theirs")); err != nil {
		t.Fatal(err)
	}
	if isPending() {
		t.Error("got a pending safe frame, want none: a program of the host has put the newest frame")
	}
}
