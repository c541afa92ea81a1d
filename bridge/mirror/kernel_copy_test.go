package mirror

import (
	"slices"
	"sync"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/wire"
)

// testKernel is a Kernel that records its calls.
type testKernel struct {
	mu      sync.Mutex
	copies  []*testCopy
	removed []string
}

type testCopy struct {
	file    *localach.Channel
	isEvery bool

	mu       sync.Mutex
	woken    int
	isClosed bool
	state    status.KernelCopy
}

func (k *testKernel) Copy(file *localach.Channel, isEvery bool) KernelCopy {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := &testCopy{file: file, isEvery: isEvery}
	k.copies = append(k.copies, c)
	return c
}

func (k *testKernel) Remove(name string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.removed = append(k.removed, name)
	return nil
}

// last returns the copy that was started last, and fails unless that is the n-th.
func (k *testKernel) last(t *testing.T, n int) *testCopy {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.copies) != n {
		t.Fatalf("%d copies were started, want %d", len(k.copies), n)
	}
	return k.copies[n-1]
}

func (k *testKernel) hasRemoved(name string) func() bool {
	return func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return slices.Equal(k.removed, []string{name})
	}
}

func (c *testCopy) Wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.woken++
}

func (c *testCopy) State() status.KernelCopy {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

func (c *testCopy) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isClosed = true
}

func (c *testCopy) set(s status.KernelCopy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = s
}

func (c *testCopy) closed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isClosed
}

// kernelMirror returns a live mirror m with a copy in a kernel.
func kernelMirror(t *testing.T, dir localach.Dir) (*Mirror, *testKernel) {
	t.Helper()
	k := &testKernel{}
	m := plannedMirror(t, dir, "m")
	m.Kernel = k
	if _, err := m.Begin(1, 0, 0); err != nil {
		t.Fatal(err)
	}
	return m, k
}

func TestKernelCopyFollowsFile(t *testing.T) {
	dir := testDir(t)
	m, k := kernelMirror(t, dir)
	first := k.last(t, 1)
	m.Put(came(1, frame(1, 64)))
	if first.woken != 1 || first.isEvery || first.file != m.file.ch {
		t.Errorf("after a put: %d wakes, isEvery %v, want 1 wake of a copy of the newest frames of the file", first.woken, first.isEvery)
	}

	m.Put(came(2, frame(2, 16*64+1))) // needs a larger file
	second := k.last(t, 2)
	eventually(t, "the copy of the old file is closed", time.Second, first.closed)
	if second.woken != 1 || second.file != m.file.ch {
		t.Errorf("after the file was replaced: %d wakes, want 1 wake of a copy of the new file", second.woken)
	}

	m.expect(1, rule.QoS{Mode: rule.Every})
	if every := k.last(t, 3); !every.isEvery {
		t.Error("mode every: the copy copies the newest frame only")
	}
	if len(k.removed) > 0 {
		t.Errorf("removed %v, want nothing: programs have the kernel channel open", k.removed)
	}
}

func TestCommandsAreNotCopiedToKernel(t *testing.T) {
	m, k := kernelMirror(t, testDir(t))
	m.expect(1, rule.QoS{Class: rule.Command})
	eventually(t, "the kernel channel is removed", time.Second, k.hasRemoved("m"))
	m.Put(came(1, frame(1, 64)))
	if c := k.last(t, 1); !c.closed() || c.woken != 0 {
		t.Errorf("closed %v, %d wakes, want a closed copy and no wake", c.closed(), c.woken)
	}
}

func TestKernelCopyIsRemovedWithMirror(t *testing.T) {
	m, k := kernelMirror(t, testDir(t))
	if err := m.Remove(); err != nil {
		t.Fatal(err)
	}
	m.Close(func() {})
	eventually(t, "the kernel channel is removed", time.Second, k.hasRemoved("m"))
}

func TestKernelCopyStaysWhenDaemonEnds(t *testing.T) {
	m, k := kernelMirror(t, testDir(t))
	m.Close(func() {})
	eventually(t, "the copy is closed", time.Second, k.last(t, 1).closed)
	if len(k.removed) > 0 {
		t.Errorf("removed %v, want nothing", k.removed)
	}
}

// Its device would have other permissions.
func TestMirrorWithFileModeIsNotCopiedToKernel(t *testing.T) {
	k := &testKernel{}
	m := plannedMirror(t, testDir(t), "m")
	m.Kernel, m.Mode = k, 0o600
	if _, err := m.Begin(1, 0, 0); err != nil {
		t.Fatal(err)
	}
	if len(k.copies) > 0 {
		t.Error("a mirror with file_mode got a copy")
	}
}

// Programs that use a channel in shared memory do not find it any more when the kernel has one of that name.
func TestAdoptedChannelIsNotCopiedToKernel(t *testing.T) {
	dir := testDir(t)
	theirs, err := dir.Create("m", localach.CreateConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	var work sync.WaitGroup
	m, k := bareMirror(dir, "m", work.Go), &testKernel{}
	defer func() { m.Close(func() {}); work.Wait() }()
	m.Kernel = k
	m.SetAdopt([]string{"m"})
	if err := m.openFile(wire.Channel{Name: "m", FrameCount: 16, FrameSize: 64, Epoch: 1}, [16]byte{1}); err != nil {
		t.Fatal(err)
	}
	m.expect(1, rule.QoS{})
	if len(k.copies) > 0 {
		t.Error("an adopted channel got a copy")
	}
}

func TestKernelFailureIsProblemOfMirror(t *testing.T) {
	m, k := kernelMirror(t, testDir(t))
	c := k.last(t, 1)
	m.Put(came(1, frame(1, 64)))
	state := func() status.Mirror { return m.Status(m.Clock.now(), Reading{}, "") }
	if s := state(); s.State != status.MirrorLive || s.Kernel == nil {
		t.Errorf("State %s, Kernel %v, want a live mirror with a copy", s.State, s.Kernel)
	}
	c.set(status.KernelCopy{Reason: "/dev/ach-m: input/output error"})
	const want = "not in the kernel: /dev/ach-m: input/output error; the mirror in shared memory gets its frames"
	m.Check()
	m.Check()
	if s := state(); s.State != status.MirrorRefused || s.Cause != status.CauseKernelMirror || s.Reason != want {
		t.Errorf("State %s, cause %q, reason %q, want refused, %q and %q", s.State, s.Cause, s.Reason, status.CauseKernelMirror, want)
	}
	if n := m.Events.Counted()[status.EventUnusable]; n != 1 {
		t.Errorf("%d events, want 1", n)
	}
	m.Put(came(2, frame(2, 64)))
	if got := newestSeq(t, m.Dir, "m"); got != 2 {
		t.Errorf("newest frame in shared memory is %d, want 2", got)
	}
	c.set(status.KernelCopy{Reason: "too large", Omitted: true})
	if s := state(); s.State != status.MirrorLive || s.Kernel.Reason == "" {
		t.Errorf("State %s, want live: a mirror that is too large for the kernel works", s.State)
	}
	c.set(status.KernelCopy{})
	if s := state(); s.State != status.MirrorLive {
		t.Errorf("State %s after the failure, want live", s.State)
	}
}

func TestForeignFramesInKernelAreCounted(t *testing.T) {
	m, k := kernelMirror(t, testDir(t))
	k.last(t, 1).set(status.KernelCopy{Foreign: 3})
	m.Check()
	m.Check()
	if s := m.Status(m.Clock.now(), Reading{}, ""); s.Foreign != 3 || s.State != status.MirrorForeignWriter {
		t.Errorf("%d foreign frames, state %s, want 3 and %s", s.Foreign, s.State, status.MirrorForeignWriter)
	}
}
