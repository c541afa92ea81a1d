package bridge

import (
	"context"
	"io/fs"
	"slices"
	"sync"
	"testing"
	"time"

	"achbridge/bridge/mirror"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach"
)

// emulatedKernel is a Kernel with a channel imu, which may be removed.
type emulatedKernel struct {
	dir     localach.Dir
	changes chan localach.Event

	mu  sync.Mutex
	imu *localach.Channel // nil while there is none
}

func (k *emulatedKernel) create(t *testing.T) *localach.Channel {
	t.Helper()
	var gone error
	ch, err := k.dir.Private("imu", localach.PrivateConfig{
		Geometry: localach.Geometry{FrameCount: 4, FrameSize: 64}, Missed: func() uint64 { return 3 },
		Check: func() error { k.mu.Lock(); defer k.mu.Unlock(); return gone },
		Close: func() { k.mu.Lock(); defer k.mu.Unlock(); gone = localach.ErrUnlinked },
	})
	if err != nil {
		t.Fatal(err)
	}
	k.mu.Lock()
	k.imu = ch
	k.mu.Unlock()
	k.changes <- localach.Event{Kind: localach.Appeared, Name: "imu"}
	return ch
}

func (k *emulatedKernel) remove() {
	k.mu.Lock()
	old := k.imu
	k.imu = nil
	k.mu.Unlock()
	old.Close()
	k.changes <- localach.Event{Kind: localach.Vanished, Name: "imu"}
}

func (k *emulatedKernel) Opens(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return name == "imu" && k.imu != nil
}

func (k *emulatedKernel) TryOpen(name string) (*localach.Channel, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.imu == nil {
		return nil, fs.ErrNotExist
	}
	return k.imu, nil
}

func (k *emulatedKernel) Watch(ctx context.Context, f func(localach.Event)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-k.changes:
			f(e)
		}
	}
}

func TestKernelChannelIsMirrored(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		k := &emulatedKernel{dir: robot.dir, changes: make(chan localach.Event, 10)}
		puts := func(ch *localach.Channel) *channel {
			c := &channel{t: t, ch: ch, w: ch.Writer(), noticed: robot.puts.noticed}
			t.Cleanup(c.close)
			return c
		}
		kind := func(want status.Kind) func() bool {
			return func() bool {
				list := pc.node.Channels()
				return len(list) == 1 && list[0].Channel == "imu" && list[0].Kind == want
			}
		}
		imu := puts(k.create(t))
		imu.put(1, 64)
		robot.run(Config{Kernel: k})
		pc.run(Config{Mirrors: []rule.Mirror{{Host: "robot", Channel: "imu"}}}, robot)
		pc.follows("robot.imu", 1, time.Second)
		w.within(time.Second, "kind kernel", kind(status.KindKernel))
		if l := robot.node.Status().Locals; len(l) != 1 || l[0].Kind != status.KindKernel || l[0].Missed != 3 {
			t.Errorf("locals %+v, want imu in the kernel, 3 frames missed", l)
		}

		k.changes <- localach.Event{Kind: localach.Appeared, Name: "imu"} // reports that its mode has changed
		time.Sleep(time.Second)
		if err := imu.ch.Check(); err != nil {
			t.Errorf("after an event the channel is closed: %v", err)
		}
		imu.put(2, 64)
		pc.follows("robot.imu", 2, time.Second)

		shared := robot.channel("imu", 4, 64)
		shared.put(30, 64)
		time.Sleep(time.Second)
		imu.put(3, 64)
		pc.follows("robot.imu", 3, time.Second) // as libach opens the kernel's channel

		k.remove()
		pc.follows("robot.imu", 30, 2*time.Second)
		w.within(time.Second, "no kind", kind(""))

		imu = puts(k.create(t))
		imu.put(4, 64)
		pc.follows("robot.imu", 4, 2*time.Second)
		w.within(time.Second, "kind kernel", kind(status.KindKernel))
	})
}

// copyingKernel is a mirror.Kernel that records of which mirrors it has copies.
type copyingKernel struct {
	mu    sync.Mutex
	names []string
}

func (k *copyingKernel) Copy(file *localach.Channel, _ bool) mirror.KernelCopy {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.names = append(k.names, file.Name())
	return workingCopy{}
}

func (k *copyingKernel) Remove(string) error { return nil }

type workingCopy struct{}

func (workingCopy) Wake()                    {}
func (workingCopy) State() status.KernelCopy { return status.KernelCopy{Written: 1} }
func (workingCopy) Close()                   {}

func TestMirrorsAreCopiedIntoKernel(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc := w.host("robot", wire10ms), w.host("pc", wire10ms)
		for _, name := range []string{"imu", "goal"} {
			robot.channel(name, 4, 64).put(1, 64)
		}
		k := &copyingKernel{}
		robot.run(Config{})
		pc.run(Config{KernelMirrors: k, Mirrors: []rule.Mirror{
			{Host: "robot", Channel: "imu"}, {Host: "robot", Channel: "goal", QoS: rule.QoS{Class: rule.Command, Budget: time.Second}},
		}}, robot)
		pc.follows("robot.imu", 1, time.Second)
		w.within(time.Second, "both mirrors", func() bool { return len(pc.node.Status().Mirrors) == 2 })
		for _, m := range pc.node.Status().Mirrors {
			if isCopied := m.Kernel != nil; isCopied != (m.Name == "robot.imu") {
				t.Errorf("%s: copied %v, want a copy of robot.imu only: goal is a command", m.Name, isCopied)
			}
		}
		if k.mu.Lock(); !slices.Equal(k.names, []string{"robot.imu"}) {
			t.Errorf("copies of %v, want robot.imu", k.names)
		}
		k.mu.Unlock()
	})
}
