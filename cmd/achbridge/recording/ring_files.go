package recording

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/foxglove/mcap/go/mcap"
)

// With the option files, all messages are also written into files called ring-000123.mcap. A file covers the time keep,
// and the one before it is left, so that the last frames are on disk if this process is killed. The next process makes
// snapshots of them.
const (
	ringPattern = "ring-[0-9][0-9][0-9][0-9][0-9][0-9].mcap"
	ringName    = "ring-%06d.mcap"
)

// ringRetry is the time after which writing is tried again after an error.
const ringRetry = 10 * time.Second

// killedReason is the reason for the snapshots of files that a killed process left.
const killedReason = "the daemon was killed, or the host lost power"

var errFileIsFull = errors.New("the file has its full length")

// writeFiles writes all messages into files, which have numbers above number, until ctx ends.
func (f *MemoryRecorder) writeFiles(ctx context.Context, number int) {
	var reader *snapshotReader
	failed := false
	for ctx.Err() == nil {
		reader = f.nextReader(reader)
		number++
		err := f.writeFile(ctx, reader, number)
		f.setFilesProblem(err)
		if err == nil {
			failed = false
			continue
		}
		if !failed {
			f.cfg.Report(Snapshot{Reason: "files of the flight recorder", Err: err})
		}
		failed = true
		f.forget(reader) // so that it does not keep old messages in memory
		reader = nil
		select {
		case <-time.After(ringRetry):
		case <-ctx.Done():
		}
	}
	if reader != nil {
		f.forget(reader)
	}
}

// nextReader returns a reader that continues where before ended. It begins with the messages from now on if before is nil.
func (f *MemoryRecorder) nextReader(before *snapshotReader) *snapshotReader {
	now := f.r.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	reader := &snapshotReader{until: math.MaxInt64 / 2, shift: f.clock().UnixNano() - now}
	if before == nil {
		reader.at = f.ring.Since(now)
	} else {
		reader.at = before.at
		delete(f.readers, before)
	}
	f.readers[reader] = struct{}{}
	return reader
}

// writeFile writes one file, until it has its full length or ctx ends.
func (f *MemoryRecorder) writeFile(ctx context.Context, reader *snapshotReader, number int) error {
	if err := os.MkdirAll(f.cfg.Folder, 0o755); err != nil {
		return err
	}
	path := filepath.Join(f.cfg.Folder, fmt.Sprintf(ringName, number))
	w, err := newWriter(path, f.facts(reader))
	if err != nil {
		return err
	}
	if err := f.removeFiles(number - 1); err != nil {
		w.abandon()
		return err
	}
	begun, head := f.r.now(), w.whole
	var room int64
	err = f.copyTo(ctx, w, reader, &Snapshot{}, func() error {
		if f.r.now()-begun >= int64(f.cfg.Rules.Keep) || w.size() > f.cfg.Rules.Quota/4 {
			return errFileIsFull
		}
		if w.whole > head {
			f.setFilesProblem(nil)
		}
		if w.size() <= room {
			return nil
		}
		room = w.size() + quotaStep
		return f.makeRoom(path, room)
	})
	if errors.Is(err, errFileIsFull) {
		err = nil
	}
	if err == nil || errors.Is(err, errQuota) {
		_, closing := w.close()
		return errors.Join(err, closing)
	}
	w.abandon()
	return err
}

// removeFiles removes the files with numbers below first.
func (f *MemoryRecorder) removeFiles(first int) error {
	names, err := filepath.Glob(filepath.Join(f.cfg.Folder, ringPattern))
	for _, name := range names {
		if filepath.Base(name) < fmt.Sprintf(ringName, first) {
			err = errors.Join(err, os.Remove(name))
		}
	}
	return err
}

// recoverFiles makes snapshots of the files that a killed process left. It leaves those of a process that ended properly,
// which the new files replace. It returns the number of the newest file.
func (f *MemoryRecorder) recoverFiles() (number int) {
	names, _ := filepath.Glob(filepath.Join(f.cfg.Folder, ringPattern)) // fails only for a wrong pattern
	if len(names) == 0 {
		return 0
	}
	newest := names[len(names)-1]
	_, _ = fmt.Sscanf(filepath.Base(newest), ringName, &number)
	if isComplete(newest) {
		return number
	}
	for _, name := range names {
		s := Snapshot{Reason: killedReason}
		st, err := os.Stat(name)
		if err == nil {
			s.Bytes = st.Size()
			s.Path, err = f.snapshotPath(st.ModTime())
		}
		if err == nil {
			err = os.Rename(name, s.Path)
		}
		s.Err = err
		f.cfg.Report(s)
	}
	return number
}

// isComplete reports whether a file has its end.
func isComplete(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	end := make([]byte, len(mcap.Magic))
	if _, err := file.Seek(-int64(len(end)), io.SeekEnd); err != nil {
		return false
	}
	_, err = io.ReadFull(file, end)
	st, statErr := file.Stat()
	return err == nil && statErr == nil && st.Size() > 2*int64(len(end)) && string(end) == string(mcap.Magic)
}

// setFilesProblem notes why the files cannot be written; nil means that they can.
func (f *MemoryRecorder) setFilesProblem(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.filesProblem = ""
	if err != nil {
		f.filesProblem = "files of the flight recorder: " + err.Error()
	}
}
