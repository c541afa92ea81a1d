package localach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// EventKind says what became of a channel's name in a directory.
type EventKind int

// The kinds of events. Of one name the order is always Appeared, any number of Replaced, Vanished, and again.
const (
	Appeared EventKind = iota + 1
	Vanished
	Replaced // another file under the name, or the same one with another size, or one that we may use at last: open it again
)

func (k EventKind) String() string {
	switch k {
	case Appeared:
		return "appeared"
	case Vanished:
		return "vanished"
	case Replaced:
		return "replaced"
	}
	return fmt.Sprintf("EventKind(%d)", int(k))
}

// Event is one change of a directory.
type Event struct {
	Kind EventKind
	Name string // of the channel
}

// Creation is not atomic in libach, and the stores that complete a file make no inotify event: a file that is not yet
// a channel is looked at again after retryFirst, twice that, and so on up to retryLast, and then for as long as it stays.
const (
	retryFirst = 2 * time.Millisecond
	retryLast  = time.Second
)

// Watch calls f once with Appeared for every channel present, in order of name, then with every change, until ctx is
// done (it returns ctx.Err()) or the directory cannot be watched. f is called from the caller's goroutine, one call at
// a time; while it runs, changes queue up, and those of one name may become one. A file that is not (yet) a complete channel is not
// reported before it is; one that we may not open is, so that Open can say why. A channel that is initialised again in place
// with the same size is no event of the directory: Channel.Check finds that.
func (d Dir) Watch(ctx context.Context, f func(Event)) error {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", d, err)
	}
	defer letGo(notify)
	if err := notify.Add(string(d)); err != nil {
		return fmt.Errorf("watch %s: %w", d, err)
	}
	w := dirWatch{dir: d, known: map[string]known{}, report: f}
	if err := w.rescan(time.Now()); err != nil {
		return err
	}
	return w.run(ctx, notify)
}

// letGoTime is how long Watch waits at its end for the kernel, which closes inotify only after a worker of its own
// has waited for every processor: 15 ms on an idle machine, most of a second on a busy one.
const letGoTime = 100 * time.Millisecond

// letGo closes notify. What takes longer than letGoTime is left to a goroutine.
func letGo(notify *fsnotify.Watcher) {
	closed := make(chan struct{})
	go func() {
		notify.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(letGoTime):
	}
}

// dirWatch compares what lies in the directory with what was reported of it.
type dirWatch struct {
	dir    Dir
	known  map[string]known
	report func(Event)
}

// known is what was last seen under a name.
type known struct {
	reported bool
	file     identity      // as reported
	pending  uint64        // inode of the incomplete file the retries are for
	retry    time.Time     // zero: nothing to wait for
	pause    time.Duration // before the next retry
}

// identity distinguishes two files under one name, and two lives of one file.
type identity struct {
	inode  uint64
	born   int64 // ns; inode numbers come again
	size   int64 // the one thing about a file that an initialisation in place may change
	usable bool  // we may open it
}

func (w *dirWatch) run(ctx context.Context, notify *fsnotify.Watcher) error {
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		if next, ok := w.nextRetry(); ok {
			retry.Reset(time.Until(next))
		} else {
			retry.Stop()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-retry.C:
			w.retryDue(time.Now())
		case e := <-notify.Events:
			if e.Name == string(w.dir) && e.Has(fsnotify.Remove|fsnotify.Rename) {
				return fmt.Errorf("watch %s: the directory itself is gone: %w", w.dir, fs.ErrNotExist)
			}
			if name, ok := channelName(filepath.Base(e.Name)); ok {
				w.look(name, time.Now())
			}
		case err := <-notify.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return fmt.Errorf("watch %s: %w", w.dir, err)
			}
			if err := w.rescan(time.Now()); err != nil {
				return err
			}
		}
	}
}

// rescan looks at every name in the directory and at every name known.
func (w *dirWatch) rescan(now time.Time) error {
	entries, err := os.ReadDir(string(w.dir))
	if err != nil {
		return fmt.Errorf("watch %s: %w", w.dir, err)
	}
	names := slices.Collect(maps.Keys(w.known))
	for _, e := range entries {
		if name, ok := channelName(e.Name()); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		w.look(name, now)
	}
	return nil
}

// look compares one name with what was reported of it, and reports the difference.
func (w *dirWatch) look(name string, now time.Time) {
	k := w.known[name]
	file, err := w.dir.look(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		delete(w.known, name)
		if k.reported {
			w.report(Event{Vanished, name})
		}
	case err != nil:
		vanished := k.reported && file.inode != k.file.inode
		if vanished {
			k.reported = false
		}
		if file.inode != k.pending {
			k.pending, k.pause = file.inode, 0
		}
		k.pause = min(max(2*k.pause, retryFirst), retryLast)
		k.retry = now.Add(k.pause)
		w.known[name] = k
		if vanished {
			w.report(Event{Vanished, name})
		}
	default:
		w.known[name] = known{reported: true, file: file}
		if !k.reported {
			w.report(Event{Appeared, name})
		} else if file != k.file {
			w.report(Event{Replaced, name})
		}
	}
}

func (w *dirWatch) nextRetry() (time.Time, bool) {
	var first time.Time
	for _, k := range w.known {
		if !k.retry.IsZero() && (first.IsZero() || k.retry.Before(first)) {
			first = k.retry
		}
	}
	return first, !first.IsZero()
}

func (w *dirWatch) retryDue(now time.Time) {
	for _, name := range slices.Sorted(maps.Keys(w.known)) {
		if at := w.known[name].retry; !at.IsZero() && !at.After(now) {
			w.look(name, now)
		}
	}
}

// channelName is the channel that a file name stands for. Temporary names begin with a dot and stand for none.
func channelName(file string) (string, bool) {
	name, ok := strings.CutPrefix(file, filePrefix)
	return name, ok && CheckName(name) == nil
}

// look opens the file under a name and says which one it is, and with an error that it is not a complete channel.
// It reads through the file, not through a mapping: nothing can fault.
func (d Dir) look(name string) (identity, error) {
	file, err := d.openFile(name)
	if errors.Is(err, fs.ErrPermission) {
		return d.lookFromOutside(name)
	}
	if err != nil {
		id, outside := d.lookFromOutside(name)
		return id, cmp.Or(outside, err) // no descriptor left, say, tells nothing about the file
	}
	defer file.Close()
	id, size, err := identify(file)
	if err != nil {
		return identity{}, err
	}
	_, _, err = readHeader(file)
	return identity{id.inode, id.born, size, true}, err
}

func (d Dir) lookFromOutside(name string) (identity, error) {
	var st unix.Stat_t
	if err := unix.Lstat(d.Path(name), &st); err != nil {
		return identity{}, err
	}
	return identity{inode: st.Ino, size: st.Size}, nil
}
