package bridge

import (
	"encoding/binary"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/bridge/ring"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/testnet"
	"achbridge/wire"
)

// forgedFile is a channel's file as any local user can write it. It declares a ring and frames
// that nobody put. It uses memory only at its beginning and its end.
type forgedFile struct {
	t     *testing.T
	file  *os.File
	count uint64
	seq   uint64
}

// headerSizes has the size of a channel's header by architecture, in bytes (ach-abi.md).
var headerSizes = map[string]int64{"amd64": 320, "arm64": 328}

var forgedHeader = headerSizes[runtime.GOARCH]

func (h *host) forge(name string, count, size int) *forgedFile {
	t := h.w.t
	t.Helper()
	h.channel("model-"+name, 1, 64).close()
	head, err := os.ReadFile(h.dir.Path("model-" + name))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.dir.Unlink("model-" + name); err != nil {
		t.Fatal(err)
	}
	n := forgedHeader
	data := uint64(count * size)
	total := uint64(n) + 24 + uint64(count)*24 + data
	put := func(at int64, words ...uint64) {
		for i, v := range words {
			binary.LittleEndian.PutUint64(head[at+8*int64(i):], v)
		}
	}
	put(8, total)
	put(88, uint64(count), data, 0, data, 0, uint64(count))
	file, err := os.OpenFile(h.dir.Path(name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	f := &forgedFile{t: t, file: file, count: uint64(count)}
	if err := file.Truncate(int64(total)); err != nil {
		t.Fatal(err)
	}
	f.write(n, 0x1A2A3A4A5A6A7A8A)
	f.write(n+8+int64(count)*24, 0x1B2B3B4B5B6B7B8B)
	f.write(int64(total)-8, 0x1C2C3C4C5C6C7C8C)
	if _, err := file.WriteAt(head[:n], 0); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *forgedFile) write(at int64, words ...uint64) {
	f.t.Helper()
	var b []byte
	for _, v := range words {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	if _, err := f.file.WriteAt(b, at); err != nil {
		f.t.Fatal(err)
	}
}

// claim makes the ring declare a newest frame of size bytes, at its beginning.
func (f *forgedFile) claim(size int) {
	f.seq++
	f.write(forgedHeader+8, uint64(size), 0, f.seq)
	f.write(120, 1, f.count-1)
	f.write(forgedHeader-8, f.seq)
}

// kib returns the memory of the file in KiB.
func (f *forgedFile) kib() int64 {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.file.Fd()), &st); err != nil {
		f.t.Fatal(err)
	}
	return st.Blocks / 2
}

// exported returns the status of the channel's only subscription.
func (h *host) exported(channel string) status.Subscription {
	for _, e := range h.node.Status().Exports {
		if e.Channel == channel {
			return e
		}
	}
	return status.Subscription{}
}

var siegeLocal = testnet.Params{Delay: milli, Rate: 100e6}

// besieged returns a robot with a channel imu, and a PC that mirrors imu and the channels in more.
func besieged(w *world, qos rule.QoS, more ...string) (robot, pc *host, imu *channel) {
	robot, pc = w.host("robot", siegeLocal), w.host("pc", siegeLocal)
	imu = robot.channel("imu", 16, 64)
	cfg := Config{Mirrors: rule.Mirrors{{Host: "robot", Channel: "imu"}}}
	for _, name := range more {
		cfg.Mirrors = append(cfg.Mirrors, rule.Mirror{Host: "robot", Channel: name, QoS: qos})
	}
	robot.run(Config{})
	pc.run(cfg, robot)
	imu.put(1, 64)
	pc.follows("robot.imu", 1, second)
	return robot, pc, imu
}

// staysFresh puts imu every 2 ms for a second and calls each after every put. It fails if the
// mirror is ever older than the period, the delay and one packet.
func staysFresh(w *world, pc *host, imu *channel, each func(i int)) {
	w.t.Helper()
	worst := time.Duration(0)
	for i := range 500 {
		imu.put(uint64(i+2), 64)
		each(i)
		time.Sleep(2 * milli)
		if _, age := pc.newest("robot.imu"); age > worst {
			worst = age
		}
	}
	if worst > 8*milli {
		w.t.Errorf("imu was %v old beside the attack, want at most 8 ms", worst)
	}
}

func TestForgedRingUsesNoMemoryAndDelaysNoChannel(t *testing.T) {
	for _, c := range []struct {
		name        string
		count, size int
		claims      int
		mode        rule.Mode
		says        string
	}{
		{"larger than a frame may be", 2, 40 << 20, 80 << 20, rule.Newest, "have its publisher put smaller ones"},
		{"in a hole", 4, 1 << 20, 1 << 20, rule.Newest, "was never put"},
		{"in a hole, mode every", 4, 1 << 20, 1 << 20, rule.Every, "was never put"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc, imu := besieged(w, rule.QoS{Mode: c.mode}, "evil")
				evil := robot.forge("evil", c.count, c.size)
				w.within(second, "the mirror of evil", func() bool { return robot.exported("evil").Channel != "" })
				before := evil.kib()
				staysFresh(w, pc, imu, func(i int) {
					if i%5 == 0 {
						evil.claim(c.claims)
					}
				})
				if grown := evil.kib() - before; grown > 8 {
					t.Errorf("the file grew by %d KiB because it was read", grown)
				}
				if held := robot.node.shared.copying.Budget.Used(); held > 1<<20 {
					t.Errorf("%d KiB are held for frames, want none", held>>10)
				}
				e := robot.exported("evil")
				if e.Refused < 50 || e.Refused+e.Superseded+e.Overflow != e.Offered || !strings.Contains(e.Reason, c.says) {
					t.Errorf("got %q and %+v, want every frame refused and why", e.Reason, e.FrameCounters)
				}
				if e.Cause != status.CauseBadFrame {
					t.Errorf("got cause %q, want %q", e.Cause, status.CauseBadFrame)
				}
				robot.logged("frames cannot be sent", 2)
			})
		})
	}
}

func TestSlowCopyDoesNotDelayOtherChannels(t *testing.T) {
	for _, mode := range []rule.Mode{rule.Newest, rule.Every} {
		t.Run(mode.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				robot, pc, imu := besieged(w, rule.QoS{Mode: mode, Compress: rule.CompressNone}, "map")
				large := robot.channel("map", 2, ring.HugeFrame)
				w.within(second, "the mirror of map", func() bool { return robot.exported("map").Channel != "" })
				robot.node.shared.copying.Large <- struct{}{} // occupies the semaphore, so that the copy waits until this is taken back
				large.put(1, ring.HugeFrame)
				staysFresh(w, pc, imu, func(int) {})
				if seq := pc.mirror("robot.map").Seq; seq != 0 {
					t.Errorf("frame %d arrived before it was copied", seq)
				}
				<-robot.node.shared.copying.Large
				w.within(2*second, "the frame", func() bool { return pc.mirror("robot.map").Seq == 1 })
			})
		})
	}
}

// A frame that is replaced while it is copied is still sent. Otherwise frequent new frames would
// starve the channel.
func TestLargeFramesFasterThanCopyingArrive(t *testing.T) {
	inWorld(t, func(w *world) {
		const size = 200_000
		robot, pc, _ := besieged(w, rule.QoS{Compress: rule.CompressNone}, "map")
		robot.node.loop.call(func() { // a copy takes as long as ten frames
			robot.node.shared.copying.Spawn = func(f func()) { time.AfterFunc(20*milli, f) }
		})
		large := robot.channel("map", 4, size)
		w.within(second, "the mirror of map", func() bool { return robot.exported("map").Channel != "" })
		for n := range uint64(500) {
			large.put(n+1, size)
			time.Sleep(2 * milli)
		}
		if n, age := pc.newest("robot.map"); n < 450 || age > 150*milli {
			t.Errorf("got frame %d, %v old, want one of the last 50", n, age)
		}
	})
}

func TestLargestChannelIsRefusedWhileMemoryIsShort(t *testing.T) {
	inWorld(t, func(w *world) {
		const small, huge = 100_000, 500_000
		robot, pc, imu := besieged(w, rule.QoS{Compress: rule.CompressNone}, "camera", "map")
		robot.node.loop.call(func() { robot.node.shared.copying.Budget = ring.NewBudget(5 << 17) }) // 640 KiB
		camera, large := robot.channel("camera", 4, small), robot.channel("map", 4, huge)
		w.within(second, "the mirrors", func() bool { return len(robot.node.Status().Exports) == 3 })
		large.put(1, huge)
		w.within(second, "the first", func() bool { return pc.mirror("robot.map").Seq == 1 })
		for n := range uint64(40) {
			large.put(n+2, huge)
			camera.put(n+1, small)
			imu.put(n+2, 64)
			time.Sleep(100 * milli)
			if n, age := pc.newest("robot.camera"); n > 1 && age > 300*milli {
				t.Fatalf("camera's frame %d is %v old beside the larger one", n, age)
			}
			if held := robot.node.shared.copying.Budget.Used(); held > 5<<17 {
				t.Fatalf("%d KiB are held, want at most 640", held>>10)
			}
		}
		e := robot.exported("map")
		if !strings.Contains(e.Reason, "memory for its frames") || e.Cause != status.CauseLimit {
			t.Errorf("got reason %q, cause %q, want it to say that there is no memory", e.Reason, e.Cause)
		}
		if e := robot.exported("camera"); e.Reason != "" {
			t.Errorf("camera: got %q, want it sent", e.Reason)
		}
		if err := robot.dir.Unlink("camera"); err != nil {
			t.Fatal(err)
		}
		w.within(5*second, "the newest, which is owed", func() bool { return pc.mirror("robot.map").Seq == 41 })
	})
}

func TestUnmirrorableChannelIsReported(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, _, _ := besieged(w, rule.QoS{})
		robot.forge("frames", 2, wire.MaxFrame+1)
		robot.forge("index", wire.MaxFrameCount+1, 16)
		robot.forge("file", 32, 40<<20)
		for name, text := range map[string]string{"frames": "64 MiB", "index": "16777216", "file": "1024 MiB"} {
			var s status.Local
			w.within(second, name, func() bool {
				for _, l := range robot.node.Status().Locals {
					if l.Channel == name {
						s = l
					}
				}
				return s.Channel != ""
			})
			if s.Exported || s.Cause != status.CauseLimit || !strings.Contains(s.Reason, text) || !strings.Contains(s.Reason, "make it") {
				t.Errorf("%s: got %+v, want it not offered, and why, with a cure", name, s)
			}
		}
	})
}
