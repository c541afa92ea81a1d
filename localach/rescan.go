package localach

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// drain handles the events that the kernel has queued, up to readAhead, without waiting. To note an event costs less than a
// check of its file, and the kernel reports dropped events only after all others.
func (w *dirWatch) drain() (err error) {
	if w.notify == nil {
		return nil
	}
	for range readAhead {
		select {
		case e := <-w.notify.Events:
			err = w.heard(e)
		case err = <-w.notify.Errors:
			err = w.failed(err)
		default:
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// failed handles an error of inotify. It returns the errors that it cannot handle.
func (w *dirWatch) failed(err error) error {
	if errors.Is(err, fsnotify.ErrEventOverflow) {
		return w.resync(time.Now())
	}
	return fmt.Errorf("watch %s: %w", w.dir, err)
}

// resync queues a check of every name in the directory and every known name. The owners take turns, so that a user who makes
// the kernel drop events does not delay the files of others.
func (w *dirWatch) resync(now time.Time) error {
	defer w.pay(time.Now())
	for _, k := range w.known {
		w.queue.rouse(k)
	}
	return w.list(func(k *known) { w.queue.hurry(k, now) })
}

// rescan checks every name in the directory and every known name, in order.
func (w *dirWatch) rescan(now time.Time) error {
	began := time.Now()
	if err := w.list(func(*known) {}); err != nil {
		return err
	}
	w.pay(began)
	for _, name := range slices.Sorted(maps.Keys(w.known)) {
		if k := w.known[name]; k != nil {
			w.look(k, now)
		}
	}
	return nil
}

// list adds the names in the directory to the known names, as far as there is room, and calls f with each new one.
func (w *dirWatch) list(f func(*known)) error {
	dir, err := os.Open(string(w.dir))
	if err != nil {
		return fmt.Errorf("watch %s: %w", w.dir, err)
	}
	defer dir.Close()
	for {
		files, err := dir.Readdirnames(1024) // there may be millions
		for _, file := range files {
			if name, ok := channelName(file); ok {
				if k := w.found(name); k != nil {
					f(k)
				}
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("watch %s: %w", w.dir, err)
		}
	}
}

// found adds a name of the directory. It returns nil if the name was known before or there is no room.
func (w *dirWatch) found(name string) *known {
	if w.known[name] != nil {
		return nil
	}
	f, err := w.dir.facts(name)
	if err != nil {
		return nil // the file is gone already
	}
	return w.admit(name, f.owner)
}
