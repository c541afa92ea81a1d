package recording

import (
	"context"
	"encoding/json"
	"math"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/config"
	"achbridge/cmd/achbridge/recording/snapshots"
)

// MemoryConfig holds the options of a flight recorder.
type MemoryConfig struct {
	Config // Files is not used; several goroutines may call Note
	Rules  config.Recorder
	Folder string // directory for the snapshots of triggers
	Facts  map[string]string
	// Report is called with the result of each snapshot of a trigger. Two goroutines may call it at the same time.
	Report func(Snapshot)
}

// MemoryRecorder holds the last frames of channels, the ages of mirrors, and events in memory. It writes them into
// snapshots: files that triggers begin, and those that a caller of Snapshot asks for. Its methods may be called from any
// goroutine.
type MemoryRecorder struct {
	cfg      MemoryConfig
	r        *recorder
	clock    func() time.Time // wall clock
	fired    chan struct{}    // a snapshot of triggers has begun
	hasEnded chan struct{}    // closed when Run has returned

	mu       sync.Mutex
	ring     *snapshots.Ring
	topics   []topicEntry     // index: number of the topic in ring
	numbers  map[Topic]uint32 // number of each topic of frames
	readers  map[*snapshotReader]struct{}
	open     *snapshotReader   // snapshot that triggers extend; nil if there is none
	waiting  []*snapshotReader // snapshots of triggers that are not finished, the oldest first
	more     chan struct{}     // closed when messages were added
	complete int64             // log time before which all messages are in ring, apart from settle
	frames   uint64            // frames that were added
	skipped  uint64            // messages that did not fit into memory
	spans    snapshots.Spans
	writing  string   // path of the snapshot of triggers that is being written; empty if there is none
	written  uint64   // snapshots of triggers that were written
	last     Snapshot // the newest of them, with an error if it failed

	// The triggers of events are guarded by mu, those of conditions belong to the goroutine that calls add.
	onEvent    map[status.EventKind]*snapshots.Trigger
	conditions []*condition
	problems   map[int]string // why a condition cannot be checked, by its index; guarded by mu

	filesProblem string // why the files of the option files cannot be written; guarded by mu
}

// topicEntry is a topic of frames, or one of our own.
type topicEntry struct {
	topic *Topic
	own   *ownTopic
}

// longestSnapshot limits the time that triggers may extend a snapshot to, unless a single trigger needs more.
const longestSnapshot = 10 * time.Minute

// NewMemoryRecorder returns a MemoryRecorder, which works while Run runs.
func NewMemoryRecorder(cfg MemoryConfig) (*MemoryRecorder, error) {
	r, err := newRecorder(cfg.Config)
	if err != nil {
		return nil, err
	}
	r.withAges = true
	rules := cfg.Rules
	f := &MemoryRecorder{
		cfg: cfg, r: r, clock: time.Now, fired: make(chan struct{}, 1), hasEnded: make(chan struct{}),
		ring: snapshots.NewRing(rules.Memory, mapMemory, unmapMemory), numbers: map[Topic]uint32{},
		topics:  []topicEntry{{own: dropsTopic}, {own: agesTopic}, {own: eventsTopic}},
		readers: map[*snapshotReader]struct{}{}, more: make(chan struct{}),
		spans:   snapshots.Spans{Before: rules.Keep, After: rules.After, Longest: max(longestSnapshot, rules.Keep+rules.After)},
		onEvent: map[status.EventKind]*snapshots.Trigger{}, problems: map[int]string{},
	}
	f.complete = r.now()
	for _, word := range rules.On {
		t := &snapshots.Trigger{Hold: rules.Hold}
		for _, kind := range eventKinds(word) {
			f.onEvent[kind] = t
		}
	}
	for _, c := range rules.When {
		f.conditions = append(f.conditions, &condition{Condition: c, trigger: snapshots.Trigger{Hold: c.Hold}})
	}
	return f, nil
}

// eventKinds returns the kinds of events that a value of the key on includes. The first missed deadline of a mirror is
// the event mirror_stale.
func eventKinds(word string) []status.EventKind {
	kind := status.EventKind(word)
	if kind == status.EventDeadlineMissed {
		return []status.EventKind{kind, status.EventMirrorStale}
	}
	return []status.EventKind{kind}
}

// Run records until ctx ends. It returns an error if the channels cannot be read.
func (f *MemoryRecorder) Run(ctx context.Context) error {
	if _, err := f.r.checkChannels(ctx); err != nil {
		return err
	}
	defer func() {
		f.mu.Lock()
		f.ring.Clear()
		f.mu.Unlock()
		close(f.hasEnded)
	}()
	number := 0
	if f.cfg.Rules.Files {
		number = f.recoverFiles()
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return f.r.run(ctx, f) })
	group.Go(func() error { f.writeSnapshots(ctx); return nil })
	if f.cfg.Rules.Files {
		group.Go(func() error { f.writeFiles(ctx, number); return nil })
	}
	return group.Wait()
}

// mapMemory returns memory that the garbage collector does not manage: it would double what the frames need.
func mapMemory(size int) []byte {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	return b
}

func unmapMemory(b []byte) { _ = unix.Munmap(b) }

// add implements output.
func (f *MemoryRecorder) add(b batch) error {
	now := f.r.now()
	_ = b.each(func(i item, data []byte) error {
		if i.topic != nil {
			f.checkConditions(i, data)
		}
		return nil
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = b.each(func(i item, data []byte) error {
		if i.topic != nil {
			f.frames++
		}
		f.store(snapshots.Message{Topic: f.numberOf(i), Seq: i.seq, Log: i.log, Publish: i.publish, Data: data})
		return nil
	})
	needed := uint64(math.MaxUint64)
	for reader := range f.readers {
		needed = min(needed, reader.at.Number())
	}
	f.ring.Expire(now-int64(f.cfg.Rules.Keep), needed)
	f.complete = now
	close(f.more)
	f.more = make(chan struct{})
	return nil
}

// store adds a message to the ring. f.mu must be held.
func (f *MemoryRecorder) store(m snapshots.Message) {
	if !f.ring.Add(m) {
		f.skipped++
	}
}

// numberOf returns the number of an item's topic in the ring. f.mu must be held.
func (f *MemoryRecorder) numberOf(i item) uint32 {
	switch i.own {
	case dropsTopic:
		return 0
	case agesTopic:
		return 1
	case eventsTopic:
		return 2
	}
	n, ok := f.numbers[*i.topic]
	if !ok {
		n = uint32(len(f.topics))
		f.numbers[*i.topic] = n
		f.topics = append(f.topics, topicEntry{topic: i.topic})
	}
	return n
}

func (f *MemoryRecorder) flush() error { return nil }
func (f *MemoryRecorder) close() error { return nil }
func (f *MemoryRecorder) fail()        {}

// Event records an event of the daemon, and begins a snapshot if the configuration has its kind. It does not block.
func (f *MemoryRecorder) Event(e status.Event) {
	text, _ := json.Marshal(e) // cannot fail for this type
	now := f.r.now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.store(snapshots.Message{Topic: 2, Log: now, Publish: now, Data: text})
	if t := f.onEvent[e.Kind]; t != nil && t.Event(now) {
		f.fire(now, string(e.Kind)+": "+e.Text)
	}
}

// fire begins or extends the snapshot of triggers. f.mu must be held.
func (f *MemoryRecorder) fire(at int64, reason string) {
	text, _ := json.Marshal(status.Event{Time: time.Unix(0, at), Kind: status.EventSnapshot, Text: reason})
	f.store(snapshots.Message{Topic: 2, Log: at, Publish: at, Data: text})
	from, until := f.spans.Span()
	if !f.spans.Fire(at) {
		return
	}
	if f.open != nil { // it has its full length
		f.open.from, f.open.until, f.open.closed = from, until, true
	}
	from, _ = f.spans.Span()
	f.open = &snapshotReader{at: f.ring.Since(from), firedAt: at, reason: reason, shift: f.clock().UnixNano() - f.r.now()}
	f.readers[f.open] = struct{}{}
	f.waiting = append(f.waiting, f.open)
	poke(f.fired)
}

// MemoryStatus describes the state of a MemoryRecorder.
type MemoryStatus struct {
	Covers    time.Duration // age of the oldest frame in memory
	Memory    int64         // memory in use, bytes
	Frames    uint64        // frames that were recorded since the start
	Missed    uint64        // frames that were overwritten before they were read
	Skipped   uint64        // messages that did not fit into memory
	Running   bool          // a snapshot of triggers is being written
	Snapshots uint64        // snapshots of triggers that were written
	Last      *Snapshot     // the newest of them, or the newest that failed; nil if there is none
	Problems  []string      // conditions that cannot be checked, and why files are not written
}

// Status returns the present state.
func (f *MemoryRecorder) Status() MemoryStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := MemoryStatus{Memory: f.ring.Used(), Frames: f.frames, Missed: f.r.missed.Load(), Skipped: f.skipped, Running: f.spans.IsRunning(), Snapshots: f.written}
	if oldest, ok := f.ring.Oldest(); ok {
		s.Covers = min(time.Duration(f.r.now()-oldest), f.cfg.Rules.Keep)
	}
	if f.last.Path != "" || f.last.Err != nil {
		last := f.last
		s.Last = &last
	}
	for i := range f.conditions {
		if p := f.problems[i]; p != "" {
			s.Problems = append(s.Problems, p)
		}
	}
	if f.filesProblem != "" {
		s.Problems = append(s.Problems, f.filesProblem)
	}
	return s
}
