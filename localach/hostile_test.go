package localach

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"achbridge/testnet/await"
)

// Offsets of the words that the tests damage (ach-abi.md, "File").
const (
	atMagic     = 0
	atLen       = 8
	atName      = 16
	atIndexCnt  = 88
	atDataSize  = 96
	atDataHead  = 104
	atDataFree  = 112
	atIndexHead = 120
	atIndexFree = 128
	atLock      = 216
	atOwner     = 224
	atKind      = 232
	atDirty     = headerBytes - 16
	atLastSeq   = headerBytes - 8
	atGuard     = headerBytes
	atEntry     = headerBytes + 8 // size, offset, seq_num
)

func poke(c *Channel, at int, word uint64)   { binary.NativeEndian.PutUint64(c.memory[at:], word) }
func poke32(c *Channel, at int, word uint32) { binary.NativeEndian.PutUint32(c.memory[at:], word) }

// Damages each count, offset and size of an open channel. Functions that depend on it must name the field.
func TestDamagedFieldsAreReported(t *testing.T) {
	const huge = ^uint64(0)
	tests := []struct {
		name  string
		at    int
		word  uint64
		want  error
		says  string
		calls string // calls that fail: p put, n next, o next oldest, l last, f flush, c check
	}{
		{"magic", atMagic, 0xdeadbeef, ErrCorrupt, "magic", "pnolfc"},
		{"guard of the header", atGuard, 1, ErrCorrupt, "guard behind the header", "pnolc"},
		{"guard of the index", atEntry + 4*entryBytes, 1, ErrCorrupt, "guard behind the index", "pnolc"},
		{"guard of the data", atEntry + 4*entryBytes + 8 + 64, 1, ErrCorrupt, "guard behind the data", "pnolc"},
		{"len", atLen, 1, ErrCorrupt, "len", "c"},
		{"index_cnt larger", atIndexCnt, huge, ErrReinitialised, "", "pnolfc"},
		{"data_size smaller", atDataSize, 8, ErrReinitialised, "", "pnolfc"},
		{"index_head", atIndexHead, 4, ErrCorrupt, "index_head", "pnolfc"},
		{"index_head huge", atIndexHead, huge, ErrCorrupt, "index_head", "pnolfc"},
		{"index_free", atIndexFree, 5, ErrCorrupt, "index_free", "po"},
		{"data_head", atDataHead, 64, ErrCorrupt, "data_head", "p"},
		{"data_head huge", atDataHead, huge, ErrCorrupt, "data_head", "p"},
		{"data_free", atDataFree, 65, ErrCorrupt, "data_free", "p"},
		{"last_seq at its end", atLastSeq, huge, ErrCorrupt, "", "p"},
		{"size of the newest", atEntry + 3*entryBytes, 65, ErrCorrupt, "size", "nl"},
		{"size of the newest huge", atEntry + 3*entryBytes, huge, ErrCorrupt, "size", "nl"},
		{"size of the newest zero", atEntry + 3*entryBytes, 0, ErrCorrupt, "size", "nl"},
		{"end of the newest beyond the data", atEntry + 3*entryBytes + 8, 49, ErrCorrupt, "size", "nl"},
		{"end of the oldest beyond the data", atEntry + 8, 49, ErrCorrupt, "size", "o"},
		{"offset of the newest", atEntry + 3*entryBytes + 8, 64, ErrCorrupt, "offset", "nl"},
		{"offset of the newest huge", atEntry + 3*entryBytes + 8, huge - 3, ErrCorrupt, "offset", "nl"},
		{"number of the newest", atEntry + 3*entryBytes + 16, 77, ErrCorrupt, "seq_num", "nl"},
		{"size of the oldest", atEntry, huge, ErrCorrupt, "size", "po"},
		{"offset of the oldest", atEntry + 8, huge, ErrCorrupt, "offset", "o"},
		{"mutex kind", atKind, 0, ErrForeign, "", "po"},
		{"dirty", atDirty, 1, ErrDirty, "", "ponlfc"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for call, do := range hostileCalls {
				c := create(t, tempDir(t), Geometry{4, 16})
				w := c.Writer()
				for range 4 {
					put(t, w, "0123456789abcdef")
				}
				if test.at == atDirty || test.at == atKind {
					poke32(c, test.at, uint32(test.word))
				} else {
					poke(c, test.at, test.word)
				}
				err := do(c)
				if strings.Contains(test.calls, call) && (!errors.Is(err, test.want) || errors.Is(err, ErrCorrupt) != (test.want != ErrForeign) || !strings.Contains(err.Error(), test.says)) {
					t.Errorf("%s: got %v, want %v naming %q", call, err, test.want, test.says)
				}
			}
		})
	}
}

// For readers that have seen more, a decreased last_seq means that the channel was initialised again.
func TestDecreasedLastSeqIsReinitialisation(t *testing.T) {
	buf := make([]byte, 64)
	for call, read := range map[string]func(r *Reader) error{
		"next":        func(r *Reader) error { _, err := r.Next(buf, 0); return err },
		"next oldest": func(r *Reader) error { _, err := r.NextOldest(buf, 0); return err },
		"last":        func(r *Reader) error { _, err := r.Last(buf); return err },
		"flush":       (*Reader).Flush,
	} {
		c := create(t, tempDir(t), Geometry{4, 16})
		w, r := c.Writer(), c.Reader()
		for range 4 {
			put(t, w, "frame")
		}
		if err := r.Flush(); err != nil {
			t.Fatal(err)
		}
		poke(c, atLastSeq, 2)
		if err := read(r); !errors.Is(err, ErrReinitialised) {
			t.Errorf("%s: got %v, want %v", call, err, ErrReinitialised)
		}
	}
}

// The entry's number is not newer although last_seq is: without the check it would be returned forever.
func TestEntryWithOldNumberIsNoFrame(t *testing.T) {
	c := create(t, tempDir(t), Geometry{4, 16})
	poke(c, atLastSeq, 10)
	poke(c, atIndexHead, 1)
	poke(c, atIndexFree, 3)
	poke(c, atEntry, 16) // offset and number stay 0
	buf := make([]byte, 64)
	for call, read := range map[string]func(*Reader) (int, error){
		"next":        func(r *Reader) (int, error) { return r.Next(buf, 0) },
		"next oldest": func(r *Reader) (int, error) { return r.NextOldest(buf, 0) },
		"last":        func(r *Reader) (int, error) { return r.Last(buf) },
	} {
		r := c.Reader()
		for range 2 {
			if n, err := read(r); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "seq_num") {
				t.Errorf("%s: got %d bytes of frame %d and %v, want %v for its seq_num", call, n, r.Seq(), err, ErrCorrupt)
			}
		}
	}
}

// The entry begins in the data and ends far beyond it. A copy would leave the mapping, which guard.c cannot handle.
func TestEntryBeyondFileIsNotCopied(t *testing.T) {
	const far = 1 << 30
	c := create(t, tempDir(t), Geometry{4, 16})
	w, buf := c.Writer(), make([]byte, far)
	for range 4 {
		put(t, w, "0123456789abcdef")
	}
	poke(c, atEntry+3*entryBytes, far)
	poke(c, atEntry, far)
	for call, read := range map[string]func() (int, error){
		"next":        func() (int, error) { return c.Reader().Next(buf, 0) },
		"next oldest": func() (int, error) { return c.Reader().NextOldest(buf, 0) },
		"last":        func() (int, error) { return c.Reader().Last(buf) },
	} {
		if n, err := read(); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "size of an index entry") {
			t.Errorf("%s: got %d bytes and %v, want %v for its size", call, n, err, ErrCorrupt)
		}
	}
}

var hostileCalls = map[string]func(c *Channel) error{
	"p": func(c *Channel) error { _, err := c.Writer().Put(make([]byte, 16)); return err },
	"n": func(c *Channel) error { _, err := c.Reader().Next(make([]byte, 64), 0); return err },
	"o": func(c *Channel) error { _, err := c.Reader().NextOldest(make([]byte, 64), 0); return err },
	"l": func(c *Channel) error { _, err := c.Reader().Last(make([]byte, 64)); return err },
	"f": func(c *Channel) error { return c.Reader().Flush() },
	"c": (*Channel).Check,
}

// A file with an inconsistent header is refused before it is mapped.
func TestOpenRefusesInconsistentHeaders(t *testing.T) {
	const huge = ^uint64(0)
	tests := []struct {
		name string
		at   int
		word uint64
		want error
		says string
	}{
		{"magic", atMagic, 0x12345678, ErrCorrupt, "magic"},
		{"no magic yet", atMagic, 0, ErrHalfCreated, ""},
		{"no entries", atIndexCnt, 0, ErrCorrupt, "index_cnt"},
		{"absurd index_cnt", atIndexCnt, huge, ErrCorrupt, "index_cnt"},
		{"index_cnt that overflows", atIndexCnt, huge / 24, ErrCorrupt, "index_cnt"},
		{"index_cnt beyond the file", atIndexCnt, 16, ErrCorrupt, ""},
		{"no data", atDataSize, 0, ErrCorrupt, "data_size"},
		{"absurd data_size", atDataSize, huge - 7, ErrCorrupt, "data_size"},
		{"data_size beyond the file", atDataSize, 1 << 30, ErrCorrupt, ""},
		{"uneven data_size", atDataSize, 63, ErrCorrupt, "data_size"},
		{"len", atLen, 8, ErrCorrupt, "len"},
		{"guard", atGuard, 0, ErrCorrupt, "guard"},
		{"index_head", atIndexHead, huge, ErrCorrupt, "index_head"},
		{"mutex", atKind, 1, ErrForeign, ""},
	}
	for _, test := range tests {
		d := tempDir(t)
		poke(create(t, d, Geometry{4, 16}), test.at, test.word)
		c, err := d.Open("imu")
		if err == nil {
			c.Close()
		}
		if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "imu") {
			t.Errorf("%s: got %v, want %v naming %q", test.name, err, test.want, test.says)
		}
		if list, err := d.List(); err != nil || len(list) != 1 {
			t.Errorf("%s: List: got %v, %v, want the channel with its error", test.name, list, err)
		}
	}
}

func TestOpenRefusesShortFiles(t *testing.T) {
	for size, want := range map[int64]error{0: ErrHalfCreated, 3: ErrHalfCreated, 100: ErrTruncated, headerBytes: ErrTruncated, 8000: ErrTruncated} {
		d := tempDir(t)
		create(t, d, Geometry{})
		if err := os.Truncate(d.Path("imu"), size); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Open("imu"); !errors.Is(err, want) {
			t.Errorf("%d bytes: got %v, want %v", size, err, want)
		}
	}
}

func TestOpenWaitsForHalfCreatedChannel(t *testing.T) {
	d := tempDir(t)
	create(t, d, Geometry{})
	whole, err := os.ReadFile(d.Path("imu"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(d.Path("slow"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	go func() {
		time.Sleep(20 * time.Millisecond)
		file.WriteAt(whole[8:], 8)
		file.WriteAt(whole[:8], 0)
	}()
	c, err := d.Open("slow")
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestTryOpenDoesNotWaitForHalfCreatedChannel(t *testing.T) {
	d := tempDir(t)
	if err := os.WriteFile(d.Path("slow"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	fastest := time.Hour
	for range 100 {
		begin := time.Now()
		if _, err := d.TryOpen("slow"); !errors.Is(err, ErrHalfCreated) {
			t.Fatalf("got %v, want ErrHalfCreated", err)
		}
		fastest = min(fastest, time.Since(begin))
	}
	if fastest >= halfCreatedFor {
		t.Errorf("the fastest of 100 tries took %v, want one that does not wait", fastest)
	}
}

func TestOpenRefusesNonRegularFiles(t *testing.T) {
	d := tempDir(t)
	if err := os.Mkdir(d.Path("dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(d.Path("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	create(t, d, Geometry{})
	if err := errors.Join(os.Symlink("/dev/zero", d.Path("link")), os.Symlink(d.Path("imu"), d.Path("alias"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dir", "fifo", "link", "alias"} {
		await.Return(t, "calls on a damaged channel", func() {
			if _, err := d.Open(name); err == nil {
				t.Errorf("%s: opened", name)
			}
		})
	}
	if _, err := d.Open("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
}

func TestOpenNeedsWritePermission(t *testing.T) {
	d := tempDir(t)
	create(t, d, Geometry{})
	if err := errors.Join(os.Chmod(string(d), 0o755), os.Chmod(d.Path("imu"), 0o444)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread, with its other file system user, ends
		unix.Setfsuid(65534)
		_, err := d.Open("imu")
		done <- err
	}()
	if err := <-done; !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "write permission") {
		t.Errorf("got %v, want %v with a cure", err, fs.ErrPermission)
	}
}

// The lock word names no thread, an unrelated thread, or our own. glibc's lock functions would abort the process or wait
// forever.
func TestInvalidLockWordsGiveErrBusy(t *testing.T) {
	t.Parallel()
	for name, word := range map[string]uint32{
		"no such thread":              0x3ffffff0,
		"no such thread, queued for":  0xbffffff0,
		"another process":             1,
		"a thread of ours":            uint32(os.Getpid()),
		"a thread of ours, inherited": uint32(os.Getpid()) | 0x80000000,
		"garbage":                     0xffffffff,
	} {
		c := create(t, tempDir(t), Geometry{})
		w := c.Writer()
		put(t, w, "frame")
		poke32(c, atLock, word)
		await.Return(t, "calls on a damaged channel", func() {
			if _, err := w.Put([]byte("x")); !errors.Is(err, ErrBusy) && !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: put: got %v, want %v", name, err, ErrBusy)
			}
			if _, err := c.Reader().NextOldest(make([]byte, 512), 0); err != nil && !errors.Is(err, ErrBusy) && !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s: get: got %v, want %v", name, err, ErrBusy)
			}
		})
	}
}

func TestOwnerDiedIsRepaired(t *testing.T) {
	c := create(t, tempDir(t), Geometry{})
	poke32(c, atLock, 0x40000000)
	put(t, c.Writer(), "frame")
	if got := binary.NativeEndian.Uint32(c.memory[atLock:]); got != 0 {
		t.Errorf("got lock word %#x, want 0", got)
	}
}

// libach built without NDEBUG uses error-checking mutexes.
func TestMutexOfDebugBuildIsAccepted(t *testing.T) {
	c := create(t, tempDir(t), Geometry{})
	poke32(c, atKind, 0xb2)
	put(t, c.Writer(), "frame")
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}

func TestUnrecoverableMutexIsCorrupt(t *testing.T) {
	c := create(t, tempDir(t), Geometry{})
	poke32(c, atOwner, 1<<31-2)
	if _, err := c.Writer().Put([]byte("x")); !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v, want %v", err, ErrCorrupt)
	}
}

// The condition variable has the layout of another libc: up to glibc 2.40 wrefs is word 9, from 2.41 word 7. We cannot wake
// readers that wait there, and must not try.
func TestForeignConditionVariableIsReportedAndIgnored(t *testing.T) {
	c := create(t, tempDir(t), Geometry{})
	cond := c.memory[headerBytes-64 : headerBytes-16]
	words := [2]uint32{binary.NativeEndian.Uint32(cond[4*9:]), binary.NativeEndian.Uint32(cond[4*7:])}
	binary.NativeEndian.PutUint32(cond[4*7:], words[0])
	binary.NativeEndian.PutUint32(cond[4*9:], words[1])
	before := bytes.Clone(cond)
	w := c.Writer()
	put(t, w, "frame")
	if st, err := c.Stat(); err != nil || !st.ForeignCond {
		t.Errorf("got %+v, %v, want ForeignCond", st, err)
	}
	if !bytes.Equal(cond, before) || w.Stuck() != 0 {
		t.Errorf("the variable: got %x, want %x as before; stuck for %v", cond, before, w.Stuck())
	}
	buf := make([]byte, 512)
	n, err := c.Reader().Next(buf, 0)
	wantFrame(t, buf, n, err, "frame")
	if err := c.Check(); err != nil {
		t.Errorf("Check: got %v, want nil", err)
	}
}
