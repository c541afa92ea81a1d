package localach

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// EventKind is the kind of an Event.
type EventKind int

// The kinds of events. The order for each name is Appeared, any number of Replaced, Vanished, and so on. Omitted may precede
// it. Polling and Notified have no name; they report how changes are noticed.
const (
	Appeared EventKind = iota + 1
	Vanished
	Replaced // the name has another file, or the file has another size or may now be opened; open it again
	Omitted  // a new file is not watched, since there are too many; it is watched when others are removed
	Polling  // the directory is polled every pollEvery, since inotify is not available for the reason in Err
	Notified // inotify is available again
)

func (k EventKind) String() string {
	switch k {
	case Appeared:
		return "appeared"
	case Vanished:
		return "vanished"
	case Replaced:
		return "replaced"
	case Omitted:
		return "omitted"
	case Polling:
		return "polling"
	case Notified:
		return "notified"
	}
	return fmt.Sprintf("EventKind(%d)", int(k))
}

// Event is one change of a directory.
type Event struct {
	Kind EventKind
	Name string // name of the channel
	Err  error  // set for Polling
}

// libach does not create channels atomically, and the stores that complete a file cause no inotify event. So a file that is
// not yet a channel is checked again: after retryFirst, twice that, and so on up to retryLast, until retryFastFor has passed
// since its size or mtime changed, and then every retryOld. A file that is too short for a header is not checked again, since
// it must first change its size, which is an event.
const (
	retryFirst   = 2 * time.Millisecond
	retryLast    = 40 * time.Millisecond
	retryOld     = 1800 * time.Millisecond
	retryFastFor = time.Second
)

// Any user who may create files in the directory can cause many checks. So after slack, checks use at most a fifth of a CPU.
const (
	restShare = 4
	slack     = 10 * time.Millisecond
	readAhead = 64      // maximum number of events that are read between two checks
	maxKnown  = 1 << 17 // maximum number of names that are watched
)

// Inotify may be unavailable, since a user has 128 instances, which editors and containers use too. Then all files are checked
// every pollEvery, and inotify is tried again every notifyAgain.
const (
	pollEvery   = 250 * time.Millisecond
	notifyAgain = 10 * time.Second
)

// Watch calls f with Appeared for each existing channel, sorted by name, and then with each change, until ctx is done (it
// returns ctx.Err()) or the directory cannot be watched. f is called from the caller's goroutine. While f runs, changes are
// queued, and several changes of one name may be merged. A file is reported when it is a complete channel, or if it may not be
// opened, so that Open can return the reason. Watch does not report a channel that is initialised again in place with the same
// size, which Channel.Check finds. Without inotify Watch polls, and reports Polling.
func (d Dir) Watch(ctx context.Context, f func(Event)) error {
	return newDirWatch(d, f).watch(ctx)
}

func (w *dirWatch) watch(ctx context.Context) error {
	switch err := w.startNotify(); {
	case isUsedUp(err):
		w.report(Event{Kind: Polling, Err: err})
	case err != nil:
		return fmt.Errorf("watch %s: %w", w.dir, err)
	}
	defer func() { closeNotify(w.notify) }()
	if err := w.rescan(time.Now()); err != nil {
		return err
	}
	w.restUntil = time.Time{} // the first scan does not count
	return w.run(ctx)
}

// isUsedUp reports whether err means that the user or the machine has no inotify instance left.
func isUsedUp(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.ENOMEM)
}

// startNotify starts inotify for the directory.
func (w *dirWatch) startNotify() error {
	w.notifyTriedAt = time.Now()
	notify, err := w.open()
	if err != nil {
		return err
	}
	if err := notify.Add(string(w.dir)); err != nil {
		closeNotify(notify)
		return err
	}
	w.notify = notify
	return nil
}

// closeTimeout is how long Watch waits until inotify is closed. For that a worker of the kernel waits for every CPU, which
// takes 15 ms on an idle machine and almost a second on a busy one.
const closeTimeout = 100 * time.Millisecond

// closeNotify closes notify. After closeTimeout it returns while a goroutine still waits.
func closeNotify(notify *fsnotify.Watcher) {
	if notify == nil {
		return
	}
	closed := make(chan struct{})
	go func() {
		notify.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(closeTimeout):
	}
}

// dirWatch compares the files in the directory with those that were reported.
type dirWatch struct {
	dir       Dir
	names     map[string]*watchedName
	queue     checkQueue
	report    func(Event)
	restUntil time.Time // when checks may continue, so that they use at most a fifth of a CPU

	omitted bool // a name was omitted

	open          func() (*fsnotify.Watcher, error) // opens inotify; tests replace it
	notify        *fsnotify.Watcher                 // nil while the directory is polled
	notifyTriedAt time.Time                         // last attempt to open inotify
	polledAt      time.Time                         // last check of all files
}

func newDirWatch(d Dir, report func(Event)) *dirWatch {
	open := func() (*fsnotify.Watcher, error) { return fsnotify.NewBufferedWatcher(readAhead) }
	return &dirWatch{dir: d, names: map[string]*watchedName{}, report: report, open: open}
}

// poll checks all files if that is due, and tries to start inotify. With inotify it does so only if there is room for names
// that were omitted.
func (w *dirWatch) poll(now time.Time) error {
	if w.omitted && len(w.names) < maxKnown {
		w.omitted = false
		return w.resync()
	}
	if w.notify != nil || now.Before(w.polledAt.Add(pollEvery)) {
		return nil
	}
	w.polledAt = now
	if now.Sub(w.notifyTriedAt) >= notifyAgain && w.startNotify() == nil {
		w.report(Event{Kind: Notified})
	}
	return w.resync() // also after inotify has started, since earlier changes caused no event
}

// watchedName is the state of a name in the directory.
type watchedName struct {
	name      string
	reported  bool
	file      identity      // identity of the reported file
	facts     facts         // facts at the last check
	changedAt time.Time     // when facts last changed
	pause     time.Duration // time before the next retry; 0 if the last check found a complete channel or a change
	hasEvent  bool          // there was an event since the last check
	queuePlace
}

// identity distinguishes two files with one name, and two instances of one file.
type identity struct {
	inode     uint64
	createdAt int64 // in ns; distinguishes files with the same inode number
	size      int64 // changes if the file is initialised again with another geometry
	usable    bool  // we may open it
}

func (w *dirWatch) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		rested := w.restUntil.Add(-slack)
		rests := rested.After(now)
		if rests {
			timer.Reset(rested.Sub(now))
		} else if err := errors.Join(w.poll(now), w.drain()); err != nil {
			return err
		} else if w.queue.run(now, w.check) {
			timer.Reset(0) // handle new events before the next check
		} else if next, ok := w.next(); ok {
			timer.Reset(next.Sub(now))
		} else {
			timer.Stop()
		}
		var events <-chan fsnotify.Event
		var errs <-chan error
		if w.notify != nil && !rests { // otherwise events wait in the kernel's queue
			events, errs = w.notify.Events, w.notify.Errors
		}
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case e := <-events:
			err = w.handleEvent(e)
		case err = <-errs:
			err = w.failed(err)
		}
		if err != nil {
			return err
		}
	}
}

// next returns when the next check is due. It returns false if there is none.
func (w *dirWatch) next() (time.Time, bool) {
	next, ok := w.queue.next()
	if poll := w.polledAt.Add(pollEvery); w.notify == nil && (!ok || poll.Before(next)) {
		return poll, true
	}
	return next, ok
}

func (w *dirWatch) handleEvent(e fsnotify.Event) error {
	if e.Name == string(w.dir) && e.Has(fsnotify.Remove|fsnotify.Rename) {
		return fmt.Errorf("watch %s: the directory itself is gone%.0w", w.dir, fs.ErrNotExist)
	}
	if name, ok := channelName(filepath.Base(e.Name)); ok {
		w.queueCheck(name, time.Now())
	}
	return nil
}

// queueCheck queues a check of a name after an event.
func (w *dirWatch) queueCheck(name string, now time.Time) {
	defer w.addSpent(time.Now())
	if k := w.admit(name); k != nil {
		k.changedAt, k.pause, k.hasEvent = now, 0, true
		w.queue.makeDue(k)
	}
}

// addSpent counts the time since began as used by checks.
func (w *dirWatch) addSpent(began time.Time) {
	now := time.Now()
	if w.restUntil.Before(now) {
		w.restUntil = now
	}
	w.restUntil = w.restUntil.Add(restShare * now.Sub(began))
}

// check checks the file of a name, and reports an event if the file differs from the reported one.
func (w *dirWatch) check(k *watchedName, now time.Time) {
	event, changed := w.compare(k, now)
	if changed {
		w.report(event)
	}
}

func (w *dirWatch) compare(k *watchedName, now time.Time) (Event, bool) {
	defer w.addSpent(time.Now())
	before := k.facts
	f, err := w.dir.facts(k.name)
	if errors.Is(err, fs.ErrNotExist) {
		delete(w.names, k.name)
		return Event{Kind: Vanished, Name: k.name}, k.reported
	}
	if err != nil {
		w.queue.schedule(k, now.Add(retryOld)) // the error is not about the file
		return Event{}, false
	}
	hadEvent := k.hasEvent
	k.hasEvent = false
	if f == before && k.reported && !hadEvent && k.pause == 0 { // with a pause, the file was half initialised again in place
		return Event{}, false
	}
	if f != before {
		k.facts, k.changedAt, k.pause = f, now, 0
	}
	file, err := w.dir.inspect(k.name, f)
	if err != nil {
		w.retryLater(k, now, f)
		gone := k.reported && f.inode != k.file.inode
		k.reported = k.reported && !gone
		return Event{Kind: Vanished, Name: k.name}, gone
	}
	k.pause = 0
	was, old := k.reported, k.file
	k.reported, k.file = true, file
	if !was {
		return Event{Kind: Appeared, Name: k.name}, true
	}
	return Event{Kind: Replaced, Name: k.name}, file != old
}

// retryLater schedules another check of a file that is not yet a channel.
func (w *dirWatch) retryLater(k *watchedName, now time.Time, f facts) {
	switch {
	case !f.mayBecome():
		return
	case now.Sub(k.changedAt) < retryFastFor:
		k.pause = min(max(2*k.pause, retryFirst), retryLast)
	default:
		k.pause = retryOld
	}
	w.queue.schedule(k, now.Add(k.pause))
}
