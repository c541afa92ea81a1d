package kept

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/cmd/achbridge/config"
	"achbridge/localach"
	"achbridge/testnet/await"
)

var geometry = localach.Geometry{FrameCount: 4, FrameSize: 64}

// host has the channels and the files of a test.
type host struct {
	t       *testing.T
	dir     localach.Dir
	files   string
	reports []string // CHANNEL: ERROR, as Run reported them
}

func newHost(t *testing.T) *host {
	h := &host{t: t, files: filepath.Join(t.TempDir(), "frames")}
	h.reboot()
	return h
}

// reboot empties the channel directory.
func (h *host) reboot() {
	h.t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "achbridge-test-")
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { os.RemoveAll(dir) })
	h.dir = localach.Dir(dir)
}

func (h *host) create(name string, g localach.Geometry) *localach.Channel {
	h.t.Helper()
	ch, err := h.dir.Create(name, localach.CreateConfig{Geometry: g, Replace: true})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { ch.Close() })
	return ch
}

func (h *host) put(ch *localach.Channel, frame string) {
	h.t.Helper()
	w := ch.Writer()
	defer w.Close()
	if _, err := w.Put([]byte(frame)); err != nil {
		h.t.Fatal(err)
	}
}

// keep runs a Keeper of channel map while f runs, and returns what Add returned.
func (h *host) keep(f func()) (isPut bool, err error) {
	h.t.Helper()
	k := New(h.dir, h.files)
	stored, err := k.Frame("map", geometry)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		stored = nil
	}
	isPut, err = k.Add("map", geometry, stored)
	ctx, cancel := context.WithCancel(context.Background()) // not the test's context, since that is outside of the synctest bubble
	done := make(chan struct{})
	go func() {
		k.Run(ctx, func(channel string, err error) {
			if err == nil {
				err = errors.New("well")
			}
			h.reports = append(h.reports, channel+": "+err.Error())
		})
		close(done)
	}()
	f()
	cancel()
	<-done
	return isPut, err
}

func (h *host) wantFile(frame string) {
	h.t.Helper()
	got, err := New(h.dir, h.files).Frame("map", geometry)
	if err != nil || string(got) != frame {
		h.t.Errorf("the stored frame is %q, %v, want %q", got, err, frame)
	}
}

func (h *host) wantNewest(ch *localach.Channel, seq uint64, frame string) {
	h.t.Helper()
	buf := make([]byte, 256)
	n, err := ch.Reader().Last(buf)
	if err != nil || string(buf[:n]) != frame || ch.LastSeq() != seq {
		h.t.Errorf("the channel has frame %d, %q, %v, want %d, %q", ch.LastSeq(), buf[:n], err, seq, frame)
	}
}

func TestKeeperStoresAtMostOncePerSecond(t *testing.T) {
	h := newHost(t)
	ch := h.create("map", geometry)
	h.put(ch, "before the start")
	synctest.Test(t, func(*testing.T) {
		h.keep(func() {
			synctest.Wait()
			h.wantFile("before the start")
			for range 9 {
				h.put(ch, "skipped")
				time.Sleep(Period / 10)
			}
			h.wantFile("before the start")
			h.put(ch, "after a second")
			time.Sleep(Period / 5)
			h.wantFile("after a second")
			h.put(ch, "at the end")
		})
	})
	h.wantFile("at the end")
	if h.reports != nil {
		t.Errorf("got reports %q, want none", h.reports)
	}
}

func TestKeeperSkipsUnchangedFrames(t *testing.T) {
	h := newHost(t)
	ch := h.create("map", geometry)
	h.put(ch, "the same")
	h.keep(func() {})
	before, err := os.Stat(filepath.Join(h.files, "map"))
	if err != nil {
		t.Fatal(err)
	}
	h.put(ch, "the same")
	h.keep(func() {})
	if after, err := os.Stat(filepath.Join(h.files, "map")); err != nil || !os.SameFile(before, after) {
		t.Errorf("the file was written again for an equal frame (%v)", err)
	}
}

func TestRebootBringsFrameBackOnce(t *testing.T) {
	h := newHost(t)
	h.put(h.create("map", geometry), "kept")
	h.keep(func() {})
	h.reboot()
	ch := h.create("map", geometry)
	if isPut, err := h.keep(func() {}); !isPut || err != nil {
		t.Errorf("Add after a reboot = %v, %v, want true", isPut, err)
	}
	h.wantNewest(ch, 1, "kept")
	if isPut, err := h.keep(func() {}); isPut || err != nil {
		t.Errorf("Add after a restart = %v, %v, want false", isPut, err)
	}
	h.wantNewest(ch, 1, "kept")
}

func TestChannelWithFramesStaysAsItIs(t *testing.T) {
	h := newHost(t)
	h.put(h.create("map", geometry), "kept")
	h.keep(func() {})
	h.reboot()
	ch := h.create("map", geometry)
	h.put(ch, "newer")
	if isPut, err := h.keep(func() {}); isPut || err != nil {
		t.Errorf("Add of a channel with frames = %v, %v, want false", isPut, err)
	}
	h.wantNewest(ch, 1, "newer")
	h.wantFile("newer")
}

func TestBadFilesAreNotPutBack(t *testing.T) {
	good := encode("map", geometry, []byte("kept"))
	flipped := bytes.Clone(good)
	flipped[len(flipped)-1] ^= 1
	for name, c := range map[string]struct {
		text []byte
		want string
	}{
		"good":             {good, ""},
		"empty":            {nil, "damaged"},
		"half":             {good[:len(good)-2], "damaged"},
		"longer":           {append(bytes.Clone(good), 'x'), "damaged"},
		"one bit":          {flipped, "damaged"},
		"head only":        {good[:bytes.IndexByte(good, '\n')+1], "damaged"},
		"other name":       {encode("gains", geometry, []byte("kept")), "the frame of another channel: gains"},
		"other geometry":   {encode("map", localach.Geometry{FrameCount: 5, FrameSize: 64}, []byte("kept")), "its frame has another geometry: 5x64"},
		"too large":        {encode("map", geometry, make([]byte, 4*64+1)), "damaged"},
		"changed geometry": {bytes.Replace(encode("map", localach.Geometry{FrameCount: 5, FrameSize: 64}, []byte("kept")), []byte("5x64"), []byte("4x64"), 1), "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			if err := config.KeepFile(filepath.Join(h.files, "map"), c.text, 0o600); err != nil {
				t.Fatal(err)
			}
			frame, err := New(h.dir, h.files).Frame("map", geometry)
			switch {
			case c.want == "" && (err != nil || string(frame) != "kept"):
				t.Errorf("Frame = %q, %v, want kept", frame, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("Frame = %q, %v, want an error with %q", frame, err, c.want)
			}
		})
	}
}

func TestSpecialFileIsNotPutBack(t *testing.T) {
	h := newHost(t)
	if err := os.MkdirAll(h.files, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(h.files, "map")
	for _, c := range []struct {
		name string
		make func() error
	}{
		{"FIFO", func() error { return unix.Mkfifo(path, 0o600) }},
		{"device", func() error { return os.Symlink("/dev/zero", path) }},
		{"directory", func() error { return os.Mkdir(path, 0o700) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.make(); err != nil {
				t.Fatal(err)
			}
			defer os.Remove(path)
			var frame []byte
			var err error
			await.Return(t, "Frame returns", func() { frame, err = New(h.dir, h.files).Frame("map", geometry) })
			if err == nil || !strings.Contains(err.Error(), "not a regular file") {
				t.Errorf("Frame = %q, %v, want not a regular file", frame, err)
			}
		})
	}
}

func TestKeeperFollowsChannelCreatedAgain(t *testing.T) {
	h := newHost(t)
	h.put(h.create("map", geometry), "first")
	synctest.Test(t, func(*testing.T) {
		h.keep(func() {
			synctest.Wait()
			again := h.create("map", geometry)
			time.Sleep(2 * Period)
			h.wantFile("first") // a new channel without frames
			h.put(again, "second")
			time.Sleep(2 * Period)
			h.wantFile("second")
			h.put(h.create("map", localach.Geometry{FrameCount: 4, FrameSize: 128}), "other geometry")
			time.Sleep(2 * Period)
			h.wantFile("second")
			os.Remove(h.dir.Path("map"))
			time.Sleep(2 * Period)
		})
	})
	want := []string{"map: channel map has 4x128 frames, and 4x64 in the configuration: its frames are not kept", "map: well"}
	if strings.Join(h.reports, "\n") != strings.Join(want, "\n") {
		t.Errorf("got reports %q, want %q", h.reports, want)
	}
}

func TestKeeperRefusesMirrors(t *testing.T) {
	h := newHost(t)
	ch, err := h.dir.Create("map", localach.CreateConfig{Geometry: geometry, Tag: localach.Tag{Channel: 1, Epoch: 2}})
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	h.put(ch, "of another host")
	h.keep(func() {})
	if _, err := os.Stat(filepath.Join(h.files, "map")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stat of the file: %v, want none", err)
	}
	if len(h.reports) != 1 || !strings.Contains(h.reports[0], "map is a mirror") {
		t.Errorf("got reports %q, want that it is a mirror", h.reports)
	}
}

func TestKeeperRemovesDraftsOfKilledProcess(t *testing.T) {
	h := newHost(t)
	draft := filepath.Join(h.files, ".achbridge-123")
	if err := config.KeepFile(draft, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.create("map", geometry)
	h.keep(func() {})
	if _, err := os.Stat(draft); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stat of the draft: %v, want it removed", err)
	}
}

func TestKeeperReportsUnwritableDirectory(t *testing.T) {
	h := newHost(t)
	if err := os.WriteFile(h.files, nil, 0o600); err != nil { // in place of the directory
		t.Fatal(err)
	}
	ch := h.create("map", geometry)
	h.put(ch, "kept")
	synctest.Test(t, func(*testing.T) {
		h.keep(func() {
			time.Sleep(3 * Period)
			os.Remove(h.files)
			time.Sleep(2 * Period)
			h.wantFile("kept")
		})
	})
	if len(h.reports) != 2 || !strings.Contains(h.reports[0], "not a directory") || h.reports[1] != "map: well" {
		t.Errorf("got reports %q, want one error and that it is well again", h.reports)
	}
}
