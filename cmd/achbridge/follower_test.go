package main_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// forge makes the file of a channel of two frames of 512 GiB each, as any local user can. The
// sparse file uses memory only at its start and end. Its ring holds a frame of 16 bytes, then
// one of second bytes.
func forge(t *testing.T, dir string, second uint64) {
	t.Helper()
	const frames, data = 2, 1 << 40
	succeeds(t, dir, "ch", "create", "model", "--frames", "2", "--size", "64")
	model, err := os.ReadFile(filepath.Join(dir, "achshm-model"))
	if err != nil {
		t.Fatal(err)
	}
	header := len(model) - 3*8 - frames*24 - frames*64
	file, err := os.Create(filepath.Join(dir, "achshm-evil"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	write := func(at int, words ...uint64) {
		var b []byte
		for _, w := range words {
			b = binary.NativeEndian.AppendUint64(b, w)
		}
		if _, err := file.WriteAt(b, int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := file.Write(model[:header+8+frames*24+8+16]); err != nil {
		t.Fatal(err)
	}
	total := header + 3*8 + frames*24 + data
	write(8, uint64(total))
	write(88, frames, data, 0, data, 0, 0)   // counts and sizes of the ring, which is full
	write(header-8, 2)                       // last_seq
	write(header+8, 16, 0, 1, second, 16, 2) // the index: size, offset and number of each
	write(total-8, 0x1C2C3C4C5C6C7C8C)
}

func TestHugeFrameIsRefusedWithoutAllocation(t *testing.T) {
	for name, c := range map[string]struct {
		size uint64
		args []string
		says string
	}{
		"the newest": {1 << 39, []string{"--last"}, "hole"},
		"the second": {1 << 39, nil, "channel evil: a frame of 549755813888 bytes; its frame size is 549755813888, and no frame above 67108864 bytes is read"},
	} {
		dir := memory(t)
		forge(t, dir, c.size)
		cmd := program(dir, append([]string{"ch", "cat", "evil", "--hex"}, c.args...)...)
		text, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); err == nil || code != 1 || !strings.Contains(string(text), c.says) {
			t.Errorf("%s: got exit code %d and %.300q, want 1 and %q", name, code, text, c.says)
		}
	}
}

func TestSmallFramesOfHugeChannelAreRead(t *testing.T) {
	dir := memory(t)
	forge(t, dir, 16)
	if got, want := succeeds(t, dir, "ch", "cat", "evil", "--hex"), strings.Repeat("00", 16)+"\n"; got != want+want {
		t.Errorf("got %.300q, want two frames of 16 bytes", got)
	}
}
