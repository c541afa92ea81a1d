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

// drain takes what the kernel has told already, up to readAhead, without waiting: a note costs less than a look, and the
// kernel tells only behind all others that it had to drop some.
func (w *dirWatch) drain(notify *fsnotify.Watcher) (err error) {
	for range readAhead {
		select {
		case e := <-notify.Events:
			err = w.heard(e)
		case err = <-notify.Errors:
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

// failed does what is to be done about an error of the kernel's, or returns it.
func (w *dirWatch) failed(err error) error {
	if errors.Is(err, fsnotify.ErrEventOverflow) {
		return w.resync(time.Now())
	}
	return fmt.Errorf("watch %s: %w", w.dir, err)
}

// resync has every name in the directory and every name known looked at, by turns among the owners: whoever has the
// kernel drop events does not have the others wait until all of his files were looked at.
func (w *dirWatch) resync(now time.Time) error {
	defer w.pay(time.Now())
	for _, k := range w.known {
		w.queue.rouse(k)
	}
	return w.list(func(k *known) { w.queue.hurry(k, now) })
}

// rescan looks at every name in the directory and at every name known, in order.
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

// list makes sure that the names in the directory are known, as far as there is room, and calls f with the new ones.
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

// found returns what is known from now on of a name in the directory, nil if it was known before or there is no room.
func (w *dirWatch) found(name string) *known {
	if w.known[name] != nil {
		return nil
	}
	f, err := w.dir.facts(name)
	if err != nil {
		return nil // it came and went
	}
	return w.admit(name, f.owner)
}
