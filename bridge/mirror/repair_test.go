package mirror

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/bridge/rule"
	"achbridge/localach"
	"achbridge/localach/damage"
)

func TestForeignChannelWithMirrorNameIsNotReplaced(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	m.Put(came(1, frame(1, 64)))
	if err := dir.Unlink("m"); err != nil {
		t.Fatal(err)
	}
	ch, err := dir.Create("m", localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 4, FrameSize: 64}})
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	w := ch.Writer()
	defer w.Close()
	if _, err := w.Put(frame(99, 64)); err != nil {
		t.Fatal(err)
	}
	m.Put(came(2, frame(2, 5000)))
	damage.MakeDirty(t, dir, "m")
	m.Check()
	damage.Write(t, dir, "m", damage.DirtyWord, []byte{0})
	if got := newestSeq(t, dir, "m"); got != 99 {
		t.Errorf("the channel that is not ours holds frame %d, want 99", got)
	}
}

func TestWaitingFrameAboveFileSizeIsPut(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	damage.TakeLock(t, dir, "m")
	m.Put(came(1, frame(1, 64)))
	m.Put(came(2, frame(2, 5000)))
	eventually(t, "the large frame", time.Second, func() bool { return newestSeq(t, dir, "m") == 2 })
}

func TestReplacedMirrorFileRejectsOlderFrames(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	m.Put(came(7, frame(7, 64)))
	damage.MakeDirty(t, dir, "m")
	if _, mustRetransmit, err := m.Check(); err != nil || !mustRetransmit {
		t.Fatalf("got missing frame %v, %v; want the newest frame for the new file", mustRetransmit, err)
	}
	m.Put(came(6, frame(6, 64)))
	if got := newestSeq(t, dir, "m"); got != 0 {
		t.Errorf("the new file holds frame %d, want none before 7", got)
	}
	m.Put(came(7, frame(7, 64)))
	if got := newestSeq(t, dir, "m"); got != 7 {
		t.Errorf("the new file holds frame %d, want 7", got)
	}
}

// No frame of a log is put twice, not even into a new file: readers of the mirror have read it in the old one.
func TestModeEveryContinuesInNewFile(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	m.expect(1, rule.QoS{Mode: rule.Every})
	for seq := range uint64(3) {
		m.putNext(came(seq+1, frame(seq+1, 64)))
	}
	damage.MakeDirty(t, dir, "m")
	if _, _, err := m.Check(); err != nil || m.file.replaced != 1 {
		t.Fatalf("got %v, %d times replaced, want a new file", err, m.file.replaced)
	}
	if have, _ := m.expect(1, rule.QoS{Mode: rule.Every}); have != 3 {
		t.Errorf("after another link: got a request after frame %d, want 3", have)
	}
	ch, err := dir.Open("m")
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	if have := ch.Tag().Seq; have != 3 {
		t.Errorf("after a restart: goes on behind frame %d, want 3", have)
	}
	again, err := bareAdopted(dir, "m", false) // in mode newest
	if err != nil {
		t.Fatal(err)
	}
	defer again.abandon()
	if again.file.tag.Seq != 0 {
		t.Errorf("in mode newest: got a request after frame %d, want 0, since the file is empty", again.file.tag.Seq)
	}
	again.Put(came(2, frame(2, 64)))
	again.Put(came(3, frame(3, 64)))
	if got := newestSeq(t, dir, "m"); got != 3 {
		t.Errorf("got frame %d in the mirror, want 3", got)
	}
}

// The operator may have changed the permissions of a mirror's file while it was in use.
func TestNewFileKeepsPermissions(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	group := os.Getegid()
	if os.Geteuid() == 0 { // root may give the file to any group
		group = nobody
	}
	if err := errors.Join(os.Chown(dir.Path("m"), -1, group), os.Chmod(dir.Path("m"), 0o620)); err != nil {
		t.Fatal(err)
	}
	m.Put(came(1, frame(1, 5000)))
	if err := m.accompany(rule.QoS{Meta: true}); err != nil {
		t.Fatal(err)
	}
	if m.file.replaced != 1 {
		t.Fatalf("the file was replaced %d times, want 1", m.file.replaced)
	}
	for _, name := range []string{"m", "m.meta"} {
		var st unix.Stat_t
		if err := unix.Stat(dir.Path(name), &st); err != nil {
			t.Fatal(err)
		}
		if st.Mode&0o777 != 0o620 || int(st.Gid) != group {
			t.Errorf("%s: got mode %#o and group %d, want 0620 and %d", name, st.Mode&0o777, st.Gid, group)
		}
	}
}
