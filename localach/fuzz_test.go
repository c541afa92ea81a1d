package localach

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"achbridge/testnet/await"
)

// No content of a channel file may cause a crash, a hang or a read out of bounds.
func FuzzChannelFile(f *testing.F) {
	for _, image := range seedImages(f) {
		f.Add(image)
	}
	d := tempDir(f)
	f.Fuzz(func(t *testing.T, image []byte) {
		image = bytes.Clone(image)
		if len(image) > atLock+4 {
			clear(image[atLock : atLock+4]) // TestInvalidLockWordsGiveErrBusy; here it would be waiting and no fuzzing
		}
		path := d.Path("fuzzed")
		os.Remove(path)
		if err := os.WriteFile(path, image, 0o600); err != nil {
			t.Fatal(err)
		}
		await.Return(t, "calls on a damaged channel", func() {
			if info, _ := d.Info("fuzzed"); info.Err == nil && int64(info.Geometry.bytes()) > int64(len(image)) {
				t.Errorf("%v accepted in a file of %d bytes", info.Geometry, len(image))
			}
			c, err := d.TryOpenToRead("fuzzed") // unlike Open, open does not wait for a creator
			if err != nil {
				return
			}
			defer c.Close()
			tryEverything(t, c)
		})
	})
}

func tryEverything(t *testing.T, c *Channel) {
	buf := make([]byte, 100)
	r, w := c.Reader(), c.Writer()
	defer w.Close()
	for _, get := range []func([]byte) (int, error){r.Last, r.NextOldest0, r.Next0} {
		if n, err := get(buf); err == nil && (n < 1 || n > len(buf)) {
			t.Errorf("a frame of %d bytes in a buffer of %d", n, len(buf))
		}
	}
	c.Stat()
	c.LargestFrame()
	c.Check()
	c.SetTag(c.Tag(), 0)
	for range 3 {
		w.Put(buf[:7])
	}
	r.NextOldest(buf, 0)
	r.Flush()
	c.Poison()
	c.Check()
	if m := c.memory; len(m) != int(c.geom.bytes()) {
		t.Errorf("got %d bytes mapped, want %d", len(m), c.geom.bytes())
	}
}

// seedImages returns channel files of ours and of libach. Mutex and condition variable of libach's files are restored.
func seedImages(f *testing.F) [][]byte {
	d := tempDir(f)
	c := create(f, d, Geometry{4, 16})
	w := c.Writer()
	images := [][]byte{nil, {0}, bytes.Clone(c.memory)}
	sync := images[2][216:304]
	for range 6 {
		put(f, w, "frame")
		images = append(images, bytes.Clone(c.memory))
	}
	for _, kind := range []uint32{0x80, 0xb0} { // Ach 1.x
		image := bytes.Clone(c.memory)
		setWord(image, atClock, 0)
		setWord(image, atKind, kind)
		images = append(images, image)
	}
	files, _ := filepath.Glob(filepath.Join("testdata", "vectors", "*.jsonl"))
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			f.Fatal(err)
		}
		defer file.Close()
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<24)
		for n := 0; lines.Scan(); n++ {
			var op vectorOp
			if json.Unmarshal(lines.Bytes(), &op) != nil || op.Image == nil || n%20 != 0 {
				continue
			}
			image, err := base64.StdEncoding.DecodeString(*op.Image)
			if err != nil {
				f.Fatal(err)
			}
			copy(image[216:], sync)
			images = append(images, image)
		}
	}
	return images
}
