package localach

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func TestPrivateChannelHasNoFile(t *testing.T) {
	d, gone, closed := Dir(t.TempDir()), errors.New("gone"), 0
	var state error
	cfg := PrivateConfig{Geometry: Geometry{FrameCount: 4, FrameSize: 32 << 10}, Mode: 0o640, Owner: 7, Inode: 8, Missed: func() uint64 { return 9 }, Check: func() error { return state }, Close: func() { closed++ }}
	c, err := d.Private("imu", cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	other, err := d.Private("imu", cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if files, _ := os.ReadDir(string(d)); len(files) != 0 {
		t.Errorf("files %v, want none", files)
	}
	w := c.Writer()
	defer w.Close()
	frame := strings.Repeat("x", 32<<10) // large enough for the check for holes
	if _, err := w.Put([]byte(frame)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64<<10)
	if n, err := c.Reader().TryNext(buf); err != nil || string(buf[:n]) != frame {
		t.Errorf("TryNext() = %d, %v, want the frame that was put", n, err)
	}
	if stat, err := c.Stat(); err != nil || stat.Mode != 0o640 || stat.Inode != 8 || stat.Missed != 9 || c.Owner() != 7 || !c.IsPrivate() {
		t.Errorf("Stat() = %+v, %v, Owner() = %d, want mode, inode, owner and missed frames of the source", stat, err, c.Owner())
	}
	if c.Epoch() == other.Epoch() || uint32(c.Epoch()) == 0 {
		t.Errorf("epochs %x and %x, want two", c.Epoch(), other.Epoch())
	}
	if err := c.Check(); err != nil {
		t.Errorf("Check() = %v, want nil", err)
	}
	if state = gone; c.Check() != gone {
		t.Errorf("Check() = %v, want %v", c.Check(), gone)
	}
	c.Close()
	if c.Close(); closed != 1 {
		t.Errorf("Close was called %d times, want 1", closed)
	}
}

func TestPrivateChannelRefusesBadInput(t *testing.T) {
	d := Dir(t.TempDir())
	if _, err := d.Private("a/b", PrivateConfig{Geometry: defaultGeometry()}); !errors.Is(err, ErrName) {
		t.Errorf("Private(a/b) = %v, want %v", err, ErrName)
	}
	if _, err := d.Private("imu", PrivateConfig{}); !errors.Is(err, ErrGeometry) {
		t.Errorf("Private without geometry = %v, want %v", err, ErrGeometry)
	}
}
