package localach

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"testing"
)

// edit changes the bytes of a channel's file while no program has it open.
func edit(t *testing.T, d Dir, name string, change func(file []byte)) {
	t.Helper()
	file, err := os.ReadFile(d.Path(name))
	if err != nil {
		t.Fatal(err)
	}
	change(file)
	if err := os.WriteFile(d.Path(name), file, 0o600); err != nil {
		t.Fatal(err)
	}
}

func setWord(file []byte, at int, words ...uint32) {
	for i, w := range words {
		binary.NativeEndian.PutUint32(file[at+4*i:], w)
	}
}

// wantForeign checks the errors of all functions for a channel that cannot be shared.
func wantForeign(t *testing.T, d Dir, name string, want error) {
	t.Helper()
	ch, err := d.TryOpen(name)
	if err == nil {
		ch.Close()
	}
	if !errors.Is(err, want) || errors.Is(err, ErrCorrupt) {
		t.Errorf("TryOpen(%s): got %v, want %v and nothing about damage", name, err, want)
	}
	list, err := d.List()
	if err != nil || len(list) != 1 || !errors.Is(list[0].Err, want) {
		t.Errorf("List: got %+v and %v, want %v", list, err, want)
	}
}

// wantReadOnly checks that all functions treat a channel as one of Ach 1.x that can be read.
func wantReadOnly(t *testing.T, d Dir, name string) {
	t.Helper()
	if _, err := d.TryOpen(name); !errors.Is(err, ErrAch1x) || errors.Is(err, ErrCorrupt) {
		t.Errorf("TryOpen(%s) = %v, want ErrAch1x and nothing about damage", name, err)
	}
	list, err := d.List()
	if err != nil || len(list) != 1 || list[0].Err != nil || !list[0].IsAch1x {
		t.Errorf("List = %+v, %v, want a channel of Ach 1.x", list, err)
	}
	c, err := d.TryOpenToRead(name)
	if err != nil {
		t.Fatalf("TryOpenToRead = %v, want nil", err)
	}
	defer c.Close()
	before := bytes.Clone(c.memory)
	_, putErr := c.Writer().Put([]byte("x"))
	for call, err := range map[string]error{"Put": putErr, "SetTag": c.SetTag(Tag{Channel: 1}, 0), "Poison": c.Poison(), "Reserve": c.Reserve()} {
		if !errors.Is(err, ErrAch1x) {
			t.Errorf("%s = %v, want ErrAch1x", call, err)
		}
	}
	_, readErr := c.Reader().NextOldest(nil, 0)
	if err := c.Check(); err != nil || !c.IsAch1x() || !errors.Is(readErr, os.ErrDeadlineExceeded) || !bytes.Equal(before, c.memory) {
		t.Errorf("Check = %v, NextOldest = %v, IsAch1x = %v; want no error, no frame, and no byte changed", err, readErr, c.IsAch1x())
	}
}

func TestChannelOfAch1IsOnlyRead(t *testing.T) {
	const waiters = 5 << 3
	for name, c := range map[string]struct {
		kind uint32
		cond [12]uint32 // the condition variable; zero means that of this host's glibc
	}{
		"1.0":                            {kind: 0x80},
		"1.1, debug build":               {kind: 0x82},
		"1.2.1":                          {kind: 0xb0},
		"1.2.1, debug build":             {kind: 0xb2},
		"glibc 2.25 to 2.40":             {kind: 0xb0, cond: [12]uint32{9: 3}},
		"the same with waiters":          {kind: 0xb0, cond: [12]uint32{0: 10, 4: 10, 6: 5, 7: 2, 9: 3 + waiters, 10: 4}},
		"glibc from 2.41":                {kind: 0xb0, cond: [12]uint32{7: 3}},
		"the same with waiters, signals": {kind: 0xb0, cond: [12]uint32{0: 10, 4: 2, 7: 3 + waiters, 8: 6, 9: 4}},
		"glibc before 2.25":              {kind: 0xb0, cond: [12]uint32{8: 1<<32 - 1, 9: 1<<32 - 1, 10: 1}},
		"the same with readers waiting":  {kind: 0xb0, cond: [12]uint32{1: 7, 2: 7, 4: 5, 6: 5, 8: 1<<32 - 1, 9: 1<<32 - 1, 10: 1 + 2<<1, 11: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			d := tempDir(t)
			create(t, d, Geometry{4, 16})
			edit(t, d, "imu", func(file []byte) {
				setWord(file, atClock, 0)
				setWord(file, atKind, c.kind)
				if c.cond != [12]uint32{} {
					setWord(file, condOffset, c.cond[:]...)
				}
			})
			wantReadOnly(t, d, "imu")
		})
	}
}

// A channel of Ach 2 may use CLOCK_REALTIME, also in its condition variable.
func TestChannelWithRealtimeClockIsOfAch2(t *testing.T) {
	for name, cond := range map[string][12]uint32{
		"glibc 2.25 to 2.40":    {9: 1},
		"the same with waiters": {0: 10, 4: 10, 6: 5, 7: 2, 9: 1 + 2<<3, 10: 4},
		"glibc from 2.41":       {7: 1 + 2<<3, 8: 6},
		"glibc before 2.25":     {8: 1<<32 - 1, 9: 1<<32 - 1, 10: 2 << 1},
	} {
		d := tempDir(t)
		create(t, d, Geometry{4, 16})
		edit(t, d, "imu", func(file []byte) {
			setWord(file, atClock, 0)
			setWord(file, condOffset, cond[:]...)
		})
		if ch, err := d.TryOpen("imu"); err != nil {
			t.Errorf("%s: TryOpen = %v, want nil", name, err)
		} else {
			ch.Close()
		}
	}
}

// musl has neither glibc's mutex nor its condition variable.
func TestChannelOfOtherLibcIsForeign(t *testing.T) {
	for name, change := range map[string]func([]byte){
		"mutex":                          func(file []byte) { setWord(file, atKind, 1) },
		"condition variable of no glibc": func(file []byte) { setWord(file, atClock, 0); setWord(file, condOffset, make([]uint32, 12)...) },
		"condition variable that contradicts itself": func(file []byte) {
			setWord(file, atClock, 0)
			setWord(file, condOffset, 0, 0, 0, 0, 0, 0, 0, 1, 0, 3, 0, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := tempDir(t)
			create(t, d, Geometry{4, 16})
			edit(t, d, "imu", change)
			if name != "mutex" {
				wantForeign(t, d, "imu", ErrOtherLibc)
				return
			}
			if _, err := d.TryOpen("imu"); !errors.Is(err, ErrOtherLibc) || errors.Is(err, ErrCorrupt) {
				t.Errorf("TryOpen = %v, want ErrOtherLibc", err)
			}
		})
	}
}

func TestChannelOf32BitProgramIsForeign(t *testing.T) {
	for name, layout := range map[string]struct{ counts, empty int }{"i386": {76, 312}, "armhf": {80, 320}} {
		t.Run(name, func(t *testing.T) {
			d := tempDir(t)
			const frames, size = 8, 64
			file := make([]byte, layout.empty+frames*(16+size))
			setWord(file, 0, headerMagic, uint32(len(file)))
			copy(file[8:], "imu")
			setWord(file, layout.counts, frames, frames*size)
			if err := os.WriteFile(d.Path("imu"), file, 0o600); err != nil {
				t.Fatal(err)
			}
			wantForeign(t, d, "imu", ErrAch32Bit)
			edit(t, d, "imu", func(file []byte) { file[8] = 'x' })
			if _, err := d.TryOpen("imu"); !errors.Is(err, ErrCorrupt) {
				t.Errorf("with another name inside: TryOpen = %v, want ErrCorrupt", err)
			}
		})
	}
}

// A lock that is neither plain nor robust, for example one with lock elision.
func TestChannelOfAch1WithUnknownLockIsForeign(t *testing.T) {
	d := tempDir(t)
	create(t, d, Geometry{4, 16})
	edit(t, d, "imu", func(file []byte) {
		setWord(file, atClock, 0)
		setWord(file, atKind, 0x180)
	})
	wantForeign(t, d, "imu", ErrAch1x)
	if _, err := d.TryOpenToRead("imu"); !errors.Is(err, errAch1xLock) {
		t.Errorf("TryOpenToRead = %v, want %v", err, errAch1xLock)
	}
}

// A program of Ach 1.0 initialises an open channel again.
func TestReinitialisationByAch1IsDetected(t *testing.T) {
	d := tempDir(t)
	c := create(t, d, Geometry{4, 16})
	edit(t, d, "imu", func(file []byte) {
		setWord(file, atClock, 0)
		setWord(file, atKind, 0x80)
	})
	if err := c.Check(); !errors.Is(err, ErrReinitialised) {
		t.Errorf("Check = %v, want ErrReinitialised", err)
	}
	if _, err := c.Writer().Put(make([]byte, 16)); !errors.Is(err, ErrReinitialised) {
		t.Errorf("Put = %v, want ErrReinitialised", err)
	}
	if _, err := c.Reopen(); !errors.Is(err, ErrAch1x) {
		t.Errorf("Reopen = %v, want ErrAch1x", err)
	}
}
