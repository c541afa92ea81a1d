package recording

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"achbridge/cmd/achbridge/recording/snapshots"
	"achbridge/cmd/achbridge/ui"
)

// Files with the snapshots of triggers are called snapshot-000123-20260102T150405Z.mcap, by a number and the time of their
// trigger. The number has the order in which they were written, also if the host's clock was wrong. Other files are never
// removed.
const (
	snapshotPattern = "snapshot-[0-9][0-9][0-9][0-9][0-9][0-9]-*.mcap"
	snapshotTime    = "20060102T150405Z"
)

// writeSnapshots writes the snapshots that triggers begin, one after the other, until ctx ends.
func (f *MemoryRecorder) writeSnapshots(ctx context.Context) {
	for {
		select {
		case <-f.fired:
		case <-ctx.Done():
			return
		}
		for reader := f.firstWaiting(); reader != nil; reader = f.firstWaiting() {
			s := f.writeSnapshot(ctx, reader)
			f.finish(reader, s)
			f.cfg.Report(s)
		}
	}
}

func (f *MemoryRecorder) firstWaiting() *snapshotReader {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiting) == 0 {
		return nil
	}
	return f.waiting[0]
}

// finish notes that a snapshot of triggers was written, or has failed.
func (f *MemoryRecorder) finish(reader *snapshotReader, s Snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting, f.writing = f.waiting[1:], ""
	delete(f.readers, reader)
	if s.Err != nil && (f.open == nil || f.open == reader) { // the next snapshot may have the rest
		f.open = nil
		f.spans.End(max(reader.from, s.stored))
	}
	f.last = s
	if s.Err == nil {
		f.written++
	}
}

// writeSnapshot writes the snapshot of reader into a new file. After an error, the file has what was written before, and
// there is no file without frames.
func (f *MemoryRecorder) writeSnapshot(ctx context.Context, reader *snapshotReader) (s Snapshot) {
	s.Reason = reader.reason
	path, w, err := f.createSnapshot(reader)
	if err != nil {
		s.Err = err
		return s
	}
	s.Path = path
	head := w.whole
	var room int64 // size for which there is room below the quota
	s.Err = f.copyTo(ctx, w, reader, &s, func() error {
		if w.size() <= room {
			return nil
		}
		room = w.size() + quotaStep
		return f.makeRoom(path, room)
	})
	if s.Err == nil || errors.Is(s.Err, errQuota) {
		bytes, err := w.close()
		s.Bytes, s.Err = bytes, errors.Join(s.Err, err)
	} else {
		s.Bytes = w.whole
		w.abandon()
	}
	if w.whole == head && s.Err != nil {
		os.Remove(path)
		s.Path = ""
	}
	return s
}

func (f *MemoryRecorder) createSnapshot(reader *snapshotReader) (path string, w *writer, err error) {
	if err := os.MkdirAll(f.cfg.Folder, 0o755); err != nil {
		return "", nil, err
	}
	if path, err = f.snapshotPath(time.Unix(0, reader.firedAt+reader.shift)); err != nil {
		return "", nil, err
	}
	f.mu.Lock()
	f.writing = path
	f.mu.Unlock()
	if err := f.makeRoom(path, quotaStep); err != nil {
		return "", nil, err
	}
	w, err = newWriter(path, f.facts(reader))
	return path, w, err
}

// snapshotPath returns the path of a new snapshot of that time.
func (f *MemoryRecorder) snapshotPath(at time.Time) (string, error) {
	names, err := filepath.Glob(filepath.Join(f.cfg.Folder, snapshotPattern))
	number := 1
	if n := len(names); n > 0 { // Glob sorts them
		_, _ = fmt.Sscanf(filepath.Base(names[n-1]), "snapshot-%06d", &number)
		number++
	}
	return filepath.Join(f.cfg.Folder, fmt.Sprintf("snapshot-%06d-%s.mcap", number, at.UTC().Format(snapshotTime))), err
}

// quotaStep is how far ahead room is made for a snapshot, in bytes. It exceeds what is written between two checks.
const quotaStep = 2 * copyAtOnce

var errQuota = errors.New("it would be larger than the quota")

// makeRoom removes the oldest snapshots so that the other files and the one at path, of size bytes, are below the quota.
func (f *MemoryRecorder) makeRoom(path string, size int64) error {
	names, err := filepath.Glob(filepath.Join(f.cfg.Folder, snapshotPattern))
	if err != nil {
		return err
	}
	rings, err := filepath.Glob(filepath.Join(f.cfg.Folder, ringPattern))
	if err != nil {
		return err
	}
	f.mu.Lock()
	writing := f.writing
	f.mu.Unlock()
	var files []snapshots.File
	for _, name := range append(names, rings...) {
		switch st, err := os.Stat(name); {
		case err != nil || name == path:
		case name == writing || slices.Contains(rings, name):
			size += st.Size()
		default:
			files = append(files, snapshots.File{Name: name, Bytes: st.Size()})
		}
	}
	remove, ok := snapshots.Excess(files, size, f.cfg.Rules.Quota)
	if !ok {
		return fmt.Errorf("%w of %s", errQuota, ui.Bytes(int(f.cfg.Rules.Quota)))
	}
	for _, file := range remove {
		if err := os.Remove(file.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		f.r.Note("removed the oldest snapshot, for the quota: %s", file.Name)
	}
	return nil
}
