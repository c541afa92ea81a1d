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

// drain handles up to readAhead queued events of the kernel without waiting. Handling an event costs less than checking its
// file, and the kernel reports dropped events only after all others.
func (w *dirWatch) drain() (err error) {
	if w.notify == nil {
		return nil
	}
	for range readAhead {
		select {
		case e := <-w.notify.Events:
			err = w.handleEvent(e)
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

// failed handles an error of inotify. It returns errors that it cannot handle.
func (w *dirWatch) failed(err error) error {
	if errors.Is(err, fsnotify.ErrEventOverflow) {
		return w.resync()
	}
	return fmt.Errorf("watch %s: %w", w.dir, err)
}

// resync queues a check of each name in the directory and each known name.
func (w *dirWatch) resync() error {
	defer w.addSpent(time.Now())
	if err := w.list(); err != nil {
		return err
	}
	for _, k := range w.names {
		w.queue.makeDue(k)
	}
	return nil
}

// rescan checks each name in the directory and each known name, in order.
func (w *dirWatch) rescan(now time.Time) error {
	if err := w.list(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(w.names)) {
		w.queue.makeDue(w.names[name])
	}
	for w.queue.run(now, w.check) {
	}
	return nil
}

// list adds the names in the directory to the known names, up to maxKnown.
func (w *dirWatch) list() error {
	dir, err := os.Open(string(w.dir))
	if err != nil {
		return fmt.Errorf("watch %s: %w", w.dir, err)
	}
	defer dir.Close()
	for {
		files, err := dir.Readdirnames(1024) // there may be millions
		for _, file := range files {
			if name, ok := channelName(file); ok {
				w.admit(name)
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

// admit returns the state of a name in the directory, which it adds if needed. It returns nil if the file does not exist, or if
// there are maxKnown names, in which case it reports Omitted.
func (w *dirWatch) admit(name string) *watchedName {
	k := w.names[name]
	if k != nil {
		return k
	}
	if _, err := w.dir.facts(name); err != nil {
		return nil
	}
	if len(w.names) >= maxKnown {
		w.omitted = true
		w.report(Event{Kind: Omitted, Name: name})
		return nil
	}
	k = &watchedName{name: name}
	w.names[name] = k
	return k
}
