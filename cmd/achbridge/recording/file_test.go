package recording

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foxglove/mcap/go/mcap"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"achbridge/testnet/need"
)

func message(n uint64, at time.Time) mcap.Message {
	t := uint64(at.UnixNano())
	return mcap.Message{Sequence: uint32(n), LogTime: t, PublishTime: t, Data: binary.LittleEndian.AppendUint64(nil, n)}
}

// written writes a file with that many frames of imu, two in each chunk. It returns the path, and the size of the file
// after each chunk.
func written(t testing.TB, frames int) (path string, chunks []int64) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "run.mcap")
	w, err := newWriter(path, map[string]string{"host": "host"})
	if err != nil {
		t.Fatal(err)
	}
	topic := Topic{Channel: "imu", FrameCount: 16, FrameSize: 64, Mode: "0660"}
	for n := range frames {
		if err := w.frame(topic, message(uint64(n+1), time.Unix(1000, int64(n)*1e6))); err != nil {
			t.Fatal(err)
		}
		if n%2 == 1 {
			if err := w.flush(); err != nil {
				t.Fatal(err)
			}
			chunks = append(chunks, w.whole)
		}
	}
	if _, err := w.close(); err != nil {
		t.Fatal(err)
	}
	return path, chunks
}

func contents(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func summary(t testing.TB, path string) Summary {
	t.Helper()
	s, err := Summarize(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// library opens a file with the MCAP library, which the mcap tools use.
func library(t testing.TB, path string) *mcap.Reader {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	r, err := mcap.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// A file may be truncated at any byte. Only the frames of complete chunks are read.
func TestTruncatedFileIsReadUpToLastChunk(t *testing.T) {
	path, _ := written(t, 8)
	text := contents(t, path)
	cut := filepath.Join(t.TempDir(), "cut.mcap")
	most, step := 0, need.LongOr(1, 11)
	for size := len(mcap.Magic); size < len(text); size += step {
		if err := os.WriteFile(cut, text[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		list, whole := all(t, cut)
		got := numbers(list, "imu")
		if !slices.Equal(got, upTo(1, uint64(len(got)))) || len(got)%2 != 0 || len(got) < most {
			t.Fatalf("truncated after %d bytes: got frames %v, want at least the %d of a shorter file", size, got, most)
		}
		if whole && size < len(text)-200 && len(got) < 8 {
			t.Fatalf("truncated after %d of %d bytes: got a complete file", size, len(text))
		}
		most = len(got)
	}
	if most != 8 {
		t.Errorf("got at most %d frames, want all", most)
	}
}

// After a power loss, a file may have its full size but zeros instead of its last bytes.
func TestZerosAtEndAreTreatedAsTruncation(t *testing.T) {
	path, chunks := written(t, 8)
	text := contents(t, path)
	const footer = 36 // size of the last record and the magic, bytes. A file without them still has all messages.
	cut, zeros := filepath.Join(t.TempDir(), "cut.mcap"), filepath.Join(t.TempDir(), "zeros.mcap")
	for size := len(mcap.Magic); size < len(text); size += need.LongOr(1, 11) {
		for name, rest := range map[string]int{cut: 0, zeros: len(text) - size, zeros + "2": 200_000} {
			if err := os.WriteFile(name, append(slices.Clone(text[:size]), make([]byte, rest)...), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want := summary(t, cut)
		for _, name := range []string{zeros, zeros + "2"} {
			got, err := Summarize(name)
			if err != nil {
				t.Fatalf("zeros after %d of %d bytes: %v", size, len(text), err)
			}
			if got.Frames < want.Frames || got.Frames > 8 || got.Complete && size < len(text)-footer {
				t.Fatalf("zeros after %d of %d bytes: got %d frames, complete %v, want %d, %v", size, len(text), got.Frames, got.Complete, want.Frames, want.Complete)
			}
		}
	}
	damaged := slices.Clone(text)
	damaged[(chunks[0]+chunks[1])/2] ^= 0xff
	if err := os.WriteFile(cut, append(damaged, make([]byte, 1000)...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Summarize(cut); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("damaged in the middle, zeros at the end: got %v, want an error about damage", err)
	}
}

func TestDamagedAndForeignFilesAreRefused(t *testing.T) {
	path, chunks := written(t, 20)
	text := contents(t, path)
	damaged := slices.Clone(text)
	damaged[(chunks[0]+chunks[1])/2] ^= 0xff
	for name, c := range map[string]struct {
		text   []byte
		format bool
	}{
		"no mcap": {[]byte("no such thing at all"), true}, "empty": {nil, true}, "a byte flipped": {damaged, false},
	} {
		other := filepath.Join(t.TempDir(), "other.mcap")
		if err := os.WriteFile(other, c.text, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Summarize(other)
		if err == nil || errors.Is(err, ErrFormat) != c.format {
			t.Errorf("%s: got %v, want an error, ErrFormat: %v", name, err, c.format)
		}
	}
	if _, err := Summarize(filepath.Join(path, "..", "none.mcap")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: got %v, want an error about the missing file", err)
	}
	if _, err := Summarize(filepath.Dir(path)); err == nil {
		t.Error("directory: got no error, want one")
	}
}

// A damaged length must not cause an allocation of that size.
func TestDeclaredRecordSizeDoesNotAllocate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.mcap")
	text := append(slices.Clone(mcap.Magic), byte(mcap.OpMessage))
	if err := os.WriteFile(path, binary.LittleEndian.AppendUint64(text, 1<<30), 0o600); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s, err := Summarize(path)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; err != nil || s.Complete || n > 256<<20 {
		t.Errorf("got %d MiB allocated, complete %v, %v", n>>20, s.Complete, err)
	}
}

// The MCAP library, which the mcap tools use, finds messages by the index.
func TestIndexIsReadByMCAPLibrary(t *testing.T) {
	path, _ := written(t, 21)
	r := library(t, path)
	info, err := r.Info()
	if err != nil {
		t.Fatal(err)
	}
	if s := info.Statistics; s.MessageCount != 21 || s.ChunkCount != 11 || s.ChannelCount != 1 || s.MessageStartTime != 1000e9 || s.MessageEndTime != 1000e9+20e6 || s.ChannelMessageCounts[1] != 21 {
		t.Errorf("got statistics %+v, want 21 messages of one channel", s)
	}
	it, err := r.Messages(mcap.UsingIndex(true), mcap.InOrder(mcap.ReverseLogTimeOrder), mcap.WithTopics([]string{"imu"}))
	if err != nil {
		t.Fatal(err)
	}
	for n := uint64(21); n > 0; n-- {
		_, c, m, err := it.NextInto(nil)
		if err != nil {
			t.Fatal(err)
		}
		if binary.LittleEndian.Uint64(m.Data) != n || c.Topic != "imu" || c.Metadata["frame_size"] != "64" {
			t.Errorf("got %+v of %+v, want frame %d", m, c, n)
		}
	}
	if _, _, _, err := it.NextInto(nil); !errors.Is(err, io.EOF) {
		t.Errorf("after the last frame: got %v, want the end of the file", err)
	}
}

// This test checks the same as mcap doctor: the checksums of both sections, and that each
// index entry leads to its record.
func TestFileChecksumsAndIndexes(t *testing.T) {
	path, _ := written(t, 21)
	text := contents(t, path)
	const footer = 9 + 20
	end := len(text) - len(mcap.Magic) - footer
	f, err := mcap.ParseFooter(text[end+9 : end+footer])
	if err != nil {
		t.Fatal(err)
	}
	if want := crc32.ChecksumIEEE(text[f.SummaryStart : end+footer-4]); f.SummaryCRC != want || want == 0 {
		t.Errorf("summary: got %x, want %x", f.SummaryCRC, want)
	}
	dataEnd := int(f.SummaryStart) - 9 - 4
	if got, want := binary.LittleEndian.Uint32(text[dataEnd+9:]), crc32.ChecksumIEEE(text[:dataEnd]); mcap.OpCode(text[dataEnd]) != mcap.OpDataEnd || got != want {
		t.Errorf("data: got %x, want %x", got, want)
	}
	checkIndexes(t, path, text)
}

// checkIndexes follows every index of the file: to the chunks, from each chunk to its message
// indexes, and from those to the messages.
func checkIndexes(t *testing.T, path string, text []byte) {
	t.Helper()
	r := library(t, path)
	info, err := r.Info()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range info.MetadataIndexes {
		if mcap.OpCode(text[m.Offset]) != mcap.OpMetadata {
			t.Errorf("metadata index leads to %d, where there is no metadata", m.Offset)
		}
	}
	unpack, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer unpack.Close()
	record := func(b []byte, at uint64) (mcap.OpCode, []byte) {
		n := binary.LittleEndian.Uint64(b[at+1:])
		return mcap.OpCode(b[at]), b[at+9 : at+9+n]
	}
	messages := 0
	for _, c := range info.ChunkIndexes {
		op, body := record(text, c.ChunkStartOffset)
		chunk, err := mcap.ParseChunk(body)
		if err != nil || op != mcap.OpChunk || uint64(len(body)+9) != c.ChunkLength {
			t.Fatalf("no chunk at %d: %v", c.ChunkStartOffset, err)
		}
		records, err := unpack.DecodeAll(chunk.Records, nil)
		if err != nil || uint64(len(records)) != chunk.UncompressedSize || crc32.ChecksumIEEE(records) != chunk.UncompressedCRC {
			t.Fatalf("cannot decompress the chunk at %d: %v", c.ChunkStartOffset, err)
		}
		for id, at := range c.MessageIndexOffsets {
			op, body := record(text, at)
			index, err := mcap.ParseMessageIndex(body)
			if err != nil || op != mcap.OpMessageIndex || index.ChannelID != id {
				t.Fatalf("no index of channel %d at %d: %v", id, at, err)
			}
			for _, e := range index.Records {
				op, body := record(records, e.Offset)
				m, err := mcap.ParseMessage(body)
				if err != nil || op != mcap.OpMessage || m.ChannelID != id || m.LogTime != e.Timestamp || m.LogTime < c.MessageStartTime || m.LogTime > c.MessageEndTime {
					t.Errorf("index of channel %d: got %+v, %v at %d, want a message of %d", id, m, err, e.Offset, e.Timestamp)
				}
				messages++
			}
		}
	}
	if uint64(messages) != info.Statistics.MessageCount {
		t.Errorf("the indexes lead to %d messages, want %d", messages, info.Statistics.MessageCount)
	}
}

func TestFullDiskEndsRecordingWithCompleteFile(t *testing.T) {
	dir, path := fullDisk(t), ""
	path = filepath.Join(dir, "run.mcap")
	w, err := newWriter(path, map[string]string{"host": "host"})
	if err != nil {
		t.Fatal(err)
	}
	topic := Topic{Channel: "noise", FrameCount: 16, FrameSize: 64, Mode: "0660"}
	noise := make([]byte, 32<<10)
	random, err := os.Open("/dev/urandom")
	if err != nil {
		t.Fatal(err)
	}
	defer random.Close()
	n := uint64(0)
	for err == nil && n < 1000 {
		n++
		if _, err := io.ReadFull(random, noise); err != nil {
			t.Fatal(err)
		}
		binary.LittleEndian.PutUint64(noise, n)
		m := message(n, time.Now())
		m.Data = noise
		if err = w.frame(topic, m); err == nil {
			err = w.flush()
		}
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("got %v after %d frames, want %v", err, n, unix.ENOSPC)
	}
	w.file.Close()
	list, whole := all(t, path)
	if got := numbers(list, "noise"); whole || !slices.Equal(got, upTo(1, n-1)) || n < 3 {
		t.Errorf("got %v frames, complete %v, want %d frames and an incomplete file", len(got), whole, n-1)
	}
	if st, err := os.Stat(path); err != nil || st.Size() != w.whole {
		t.Errorf("got a file of %d bytes, want only its complete chunks, %d bytes", st.Size(), w.whole)
	}
}

// fullDisk mounts a file system of 1 MiB, which fills up soon, and returns its directory.
func fullDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		if os.Getuid() != 0 {
			t.Skipf("a full disk is a tmpfs, which root may mount: %v", err)
		}
		need.Missing(t, fmt.Sprintf("no tmpfs can be mounted: %v", err))
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, 0) })
	return dir
}
