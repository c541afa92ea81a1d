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

// EventKind says what happened to a channel's name in a directory.
type EventKind int

// The kinds of events. Of one name the order is always Appeared, any number of Replaced, Vanished, and again; Omitted may come
// before that. The last two have no name: they are about the way in which changes are noticed.
const (
	Appeared EventKind = iota + 1
	Vanished
	Replaced // the name has another file, or its file another size, or we may now open it: open it again
	Omitted  // there is a new file, and too many others are watched; it is watched when some of these are removed
	Polling  // every pollEvery, since inotify is not to be had, for the reason in Err
	Notified // by inotify, again
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
	Name string // of the channel
	Err  error  // of Polling
}

// libach does not create channels atomically, and the stores that complete a file cause no inotify event. So a file that is
// not yet a channel is checked again: after retryFirst, twice that, and so on up to retryLast, until a second has passed since
// its size or mtime changed; then every retryOld. A file that is too short for a header is not checked again: it has to
// change its size first, which is an event.
const (
	retryFirst   = 2 * time.Millisecond
	retryLast    = 40 * time.Millisecond
	retryOld     = 1800 * time.Millisecond
	retryFastFor = time.Second
)

// Any user who may create files in the directory can cause many checks. After the first slack, checks take at most a fifth of
// a processor.
const (
	restShare = 4
	slack     = 10 * time.Millisecond
	readAhead = 64      // events of the directory that are noted between two looks
	maxKnown  = 1 << 17 // names that are watched
)

// Without inotify (a user has 128 instances, which editors and containers use up) all files are checked every pollEvery, and
// inotify is tried again every notifyAgain.
const (
	pollEvery   = 250 * time.Millisecond
	notifyAgain = 10 * time.Second
)

// Watch calls f once with Appeared for every channel present, in order of name, then with every change, until ctx is
// done (it returns ctx.Err()) or the directory cannot be watched. f is called from the caller's goroutine, one call at
// a time; while it runs, changes queue up, and those of one name may become one. A file that is not (yet) a complete channel is not
// reported before it is; one that we may not open is, so that Open can say why. A channel that is initialised again in place
// with the same size is no event of the directory: Channel.Check finds that. Without inotify Watch polls, and says so by Polling.
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
	w.restUntil = time.Time{} // the first scan does not count as spent time
	return w.run(ctx)
}

// isUsedUp reports whether err, of inotify, is that the user or the machine has no more of it.
func isUsedUp(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.ENOMEM)
}

// startNotify has the kernel report changes of the directory from now on.
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

// closeTimeout is how long Watch waits at its end for the kernel. To close inotify, a worker of the kernel waits for every
// processor: 15 ms on an idle machine, almost a second on a busy one.
const closeTimeout = 100 * time.Millisecond

// closeNotify closes notify. If that takes longer than closeTimeout, closeNotify returns while a goroutine still waits.
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
	restUntil time.Time // when the rest after the time spent so far will be over

	omitted bool // a name had no room

	open          func() (*fsnotify.Watcher, error) // of the kernel; tests have another
	notify        *fsnotify.Watcher                 // nil: the directory is polled
	notifyTriedAt time.Time                         // when inotify was tried last
	polledAt      time.Time                         // when all files were checked last
}

func newDirWatch(d Dir, report func(Event)) *dirWatch {
	open := func() (*fsnotify.Watcher, error) { return fsnotify.NewBufferedWatcher(readAhead) }
	return &dirWatch{dir: d, names: map[string]*watchedName{}, report: report, open: open}
}

// poll checks all files if it is time for that, and tries again to have inotify. While there is inotify it does so only when
// there is room again for names that were omitted.
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
	return w.resync() // also once after inotify is back: earlier changes caused no event
}

// watchedName is what was last seen under a name.
type watchedName struct {
	name      string
	reported  bool
	file      identity      // as reported
	facts     facts         // as last seen
	changedAt time.Time     // when these facts were first seen
	pause     time.Duration // before the next retry; 0 if the last look found a complete channel, or a new change
	hasEvent  bool          // an event about it came since the last look
	queuePlace
}

// identity distinguishes two files under one name, and two lives of one file.
type identity struct {
	inode     uint64
	createdAt int64 // ns; distinguishes files with the same inode number
	size      int64 // changes if the file is initialised again in place with another geometry
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
			timer.Reset(0) // handle new events first, then the next file that is due
		} else if next, ok := w.next(); ok {
			timer.Reset(next.Sub(now))
		} else {
			timer.Stop()
		}
		var events <-chan fsnotify.Event
		var errs <-chan error
		if w.notify != nil && !rests { // else events wait in the kernel's queue
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

// next returns when the next check is due, if any is.
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

// queueCheck queues the check of a name after an event about it.
func (w *dirWatch) queueCheck(name string, now time.Time) {
	defer w.addSpent(time.Now())
	if k := w.admit(name); k != nil {
		k.changedAt, k.pause, k.hasEvent = now, 0, true
		w.queue.makeDue(k)
	}
}

// addSpent counts the time since began as spent.
func (w *dirWatch) addSpent(began time.Time) {
	now := time.Now()
	if w.restUntil.Before(now) {
		w.restUntil = now
	}
	w.restUntil = w.restUntil.Add(restShare * now.Sub(began))
}

// check checks the file of one name, and reports an event if it differs from what was reported.
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
		w.queue.schedule(k, now.Add(retryOld)) // the error says nothing about the file
		return Event{}, false
	}
	hadEvent := k.hasEvent
	k.hasEvent = false
	if f == before && k.reported && !hadEvent && k.pause == 0 { // with a pause it was half initialised again in place
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

// retryLater queues another check of a file that is not yet a channel.
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
