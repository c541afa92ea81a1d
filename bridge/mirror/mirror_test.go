package mirror

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/localach/damage"
	"achbridge/testnet/await"
	"achbridge/testnet/need"
	"achbridge/wire"
)

// testMirror returns a mirror without a node, with a real file and in real time.
func testMirror(t testing.TB, dir localach.Dir, name string) *Mirror {
	t.Helper()
	m := plannedMirror(t, dir, name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.make(); err != nil {
		t.Fatal(err)
	}
	return m
}

// bareMirror returns a mirror without an open file.
func bareMirror(dir localach.Dir, name string, spawn func(func())) *Mirror {
	log := slog.New(slog.DiscardHandler)
	return New(Config{Name: name, Host: "robot", Channel: name, Dir: dir, Space: NewSpace(dir), Log: log, Events: &status.Journal{Log: log}, Spawn: spawn, Clock: Clock{Now: sinceStart}}, rule.QoS{}, nil)
}

// plannedMirror returns a mirror whose origin has not replied yet.
func plannedMirror(t testing.TB, dir localach.Dir, name string) *Mirror {
	t.Helper()
	var work sync.WaitGroup
	m := bareMirror(dir, name, work.Go)
	t.Cleanup(func() {
		m.Close(func() {})
		work.Wait()
	})
	c := wire.Channel{Name: name, FrameCount: 16, FrameSize: 64, Epoch: 1}
	if err := m.openFile(c, [16]byte{1}); err != nil {
		t.Fatal(err)
	}
	m.expect(1, rule.QoS{})
	return m
}

func testDir(t testing.TB) localach.Dir {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "bridge-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return localach.Dir(dir)
}

// newestSeq returns the number in the newest frame of a channel, 0 if there is none.
func newestSeq(t *testing.T, dir localach.Dir, name string) uint64 {
	t.Helper()
	ch, err := dir.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	g := ch.Geometry()
	b := make([]byte, g.FrameCount*g.FrameSize)
	if _, err := ch.Reader().Last(b); err != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

func eventually(t testing.TB, what string, limit time.Duration, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, limit)
		}
	}
}

// The lock word names an existing thread, as if a process had stopped while it held the mirror's lock.
func TestLockedMirrorDelaysNoOther(t *testing.T) {
	dir := testDir(t)
	stuck, other := testMirror(t, dir, "stuck"), testMirror(t, dir, "other")
	damage.TakeLock(t, dir, "stuck")

	begin := time.Now()
	for seq := range uint64(100) {
		stuck.Put(came(seq+1, frame(seq+1, 64)))
		other.Put(came(seq+1, frame(seq+1, 64)))
	}
	if took := time.Since(begin); took > 100*time.Millisecond {
		t.Errorf("100 puts into each mirror took %v, want no waiting for the lock", took)
	}
	if got := newestSeq(t, dir, "other"); got != 100 {
		t.Errorf("the other mirror is at %d, want 100", got)
	}
	damage.FreeLock(t, dir, "stuck")
	eventually(t, "the newest frame comes when the lock is free", time.Second, func() bool { return newestSeq(t, dir, "stuck") == 100 })
	if n := lastPut(t, dir, "stuck"); n > 2 {
		t.Errorf("%d frames were put afterwards, want only the newest", n)
	}
}

func TestFrameBeforeSubscribedReplyIsNoOriginReset(t *testing.T) {
	m := testMirror(t, testDir(t), "m")
	have, _ := m.expect(1, rule.QoS{})
	m.Put(came(11, frame(11, 64)))
	if ok, _ := m.Begin(1, 10, have); !ok {
		t.Errorf("got a reset of the origin after a request with frame %d, want none", have)
	}
	if ok, _ := m.Begin(1, 10, 11); ok {
		t.Error("got no reset after a request with frame 11, want one: the origin has put only 10")
	}
}

func TestWaitingFrameIsNotReportedAsPut(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	m.Put(came(1, frame(1, 64)))
	damage.TakeLock(t, dir, "m")
	m.Put(came(2, frame(2, 64)))
	if s := m.Status(0, Reading{}, ""); s.Seq != 1 {
		t.Errorf("got frame %d in status while it waits, want 1", s.Seq)
	}
	damage.FreeLock(t, dir, "m")
	eventually(t, "the frame that waited", time.Second, func() bool { return m.Status(0, Reading{}, "").Seq == 2 })
}

func TestSuccessfulPutClearsFailure(t *testing.T) {
	dir := testDir(t)
	m := testMirror(t, dir, "m")
	damage.MakeDirty(t, dir, "m")
	m.Put(came(1, frame(1, 64)))
	if m.Status(0, Reading{}, "").Reason == "" {
		t.Error("a put into a dirty file gave no reason")
	}
	damage.Write(t, dir, "m", damage.DirtyWord, []byte{0})
	m.Put(came(2, frame(2, 64)))
	if s := m.Status(0, Reading{}, ""); s.Reason != "" || s.Seq != 2 {
		t.Errorf("got reason %q at frame %d after a good put, want none at 2", s.Reason, s.Seq)
	}
}

func lastPut(t *testing.T, dir localach.Dir, name string) uint64 {
	t.Helper()
	ch, err := dir.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	return ch.LastSeq()
}

func TestKilledLocalReadersDoNotStallMirror(t *testing.T) {
	peer := cPeer(t)
	dir := testDir(t)
	m, other := testMirror(t, dir, "m"), testMirror(t, dir, "other")
	path := filepath.Join(string(dir), "achshm-m")
	kills := 30
	if need.IsLong() {
		kills = 100
	}
	var worst time.Duration
	seq := uint64(0)
	put := func() {
		seq++
		for _, m := range []*Mirror{m, other} {
			begin := time.Now()
			m.Put(came(seq, frame(seq, 64)))
			worst = max(worst, time.Since(begin))
		}
		if _, _, err := m.Check(); err != nil {
			t.Fatal(err)
		}
	}
	for range kills {
		reader := exec.Command(peer, path, "wait")
		out, err := reader.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := reader.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatalf("the C reader did not come up: %v", err)
		}
		for range 5 {
			put()
			time.Sleep(time.Millisecond)
		}
		reader.Process.Kill()
		reader.Wait()
		put()
	}
	eventually(t, "the wedged mirror gets a new file", 5*time.Second, func() bool {
		put()
		return m.file.replaced > 0
	})
	put()
	if got := newestSeq(t, dir, "m"); got != seq {
		t.Errorf("the mirror is at %d, want %d", got, seq)
	}
	if worst > 500*time.Millisecond {
		t.Errorf("the longest put took %v", worst)
	}
	t.Logf("%d readers killed, file replaced %d times, longest put %v", kills, m.file.replaced, worst)
}

// cPeer returns localach's C peer, compiled for this run.
func cPeer(t *testing.T) string {
	t.Helper()
	cc := need.Program(t, "cc", "gcc")
	peer := filepath.Join(t.TempDir(), "peer")
	source := filepath.Join("..", "..", "localach", "testdata", "peer")
	cmd := exec.Command(cc, "-O2", "-pthread", "-o", peer, filepath.Join(source, "channel.c"), filepath.Join(source, "main.c"))
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("%v: %w\n%s", cmd, err, text))
	}
	return peer
}

// came returns an arrival of frame seq in the epoch that plannedMirror expects.
func came(seq uint64, data []byte) Arrival { return Arrival{Epoch: 1, Seq: seq, Data: data} }

func frame(number uint64, size int) []byte {
	b := bytes.Repeat([]byte{byte(number)}, size)
	binary.LittleEndian.PutUint64(b, number)
	binary.LittleEndian.PutUint64(b[8:], uint64(time.Now().UnixNano()))
	return b
}

const milli = time.Millisecond

// TestMain also runs the child processes of tests, such as a daemon that is killed.
func TestMain(m *testing.M) {
	if role := childRoles[os.Getenv("MIRROR_CHILD")]; role != nil {
		if err := role(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, os.Args, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(await.Main(m))
}

var childRoles = map[string]func(args []string) error{"killed-put": killedPutRole}

var testsBegan = time.Now()

// sinceStart returns the time of the node clock of the mirrors in tests.
func sinceStart() time.Duration { return time.Since(testsBegan) }
