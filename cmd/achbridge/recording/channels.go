package recording

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"achbridge/bridge"
	"achbridge/bridge/rule"
	"achbridge/localach"
)

// wanted reports whether to record a channel. A metadata channel is recorded only if a
// pattern is its exact name, since the publish times already hold its content. The same is
// true of temporary mirrors.
func (r *recorder) wanted(name string) bool {
	if slices.Contains(r.Patterns, name) {
		return true
	}
	if len(r.Patterns) > 0 && !rule.Matches(r.Patterns, name) {
		return false
	}
	ch, err := r.Dir.TryOpenToRead(name)
	if err != nil {
		return true // opening the channel then returns the reason
	}
	defer ch.Close()
	return !bridge.IsHelper(name, ch.Tag())
}

// changed handles a change in the channel directory.
func (r *recorder) changed(e localach.Event) {
	switch e.Kind {
	case localach.Polling:
		r.Note("no inotify (%v): channels that appear are noticed four times a second; sysctl fs.inotify.max_user_instances is the limit", e.Err)
		return
	case localach.Omitted:
		r.refuse(e.Name, "there are too many channels to watch")
		return
	case localach.Notified:
		return
	}
	if s := r.streams[e.Name]; s != nil {
		if e.Kind == localach.Replaced && s.ch.Check() == nil {
			return // the same file with other permissions: it may be impossible to open, but is mapped
		}
		_ = r.drainOne(s) // its frames can still be read
		r.forget(s)
	}
	if mirror, ok := strings.CutSuffix(e.Name, rule.MetaSuffix); ok {
		if s := r.streams[mirror]; s != nil {
			r.attach(s)
		}
	}
	if e.Kind != localach.Vanished && r.wanted(e.Name) {
		r.begin(e.Name)
	}
}

// refuse notes once why a channel is not recorded.
func (r *recorder) refuse(name, why string) {
	if r.names.refusals[name] != why {
		r.names.refusals[name] = why
		r.Note("%s is not recorded: %s", name, why)
	}
}

func (r *recorder) begin(name string) {
	s, err := openStream(r.Dir, name, r.Host)
	if err != nil {
		r.refuse(name, err.Error())
		return
	}
	if r.names.atStart[name] {
		s.skipToNewest()
	}
	delete(r.names.refusals, name)
	delete(r.names.atStart, name) // a later channel of that name is another one
	s.topic.Origin, s.topic.Stamps = r.mirrors.origins[name], r.mirrors.stamps[name]
	kind, known := r.typeFor(s.topic, s.ch.Tag())
	s.topic.Type = kind
	r.streams[name] = s
	s.due.Store(true)
	if !known {
		r.types.onlyByOrigin[name], s.awaitsType = true, true
		r.types.ask(s)
	}
	s.notice = r.watcher.Watch(s.ch, func(uint64) {
		s.due.Store(true)
		poke(r.wake)
	})
}

// attach opens or closes the metadata channel of a mirror after it appeared, changed or vanished.
func (r *recorder) attach(s *stream) {
	_ = r.drainOne(s)
	s.meta.close()
	s.meta = openMetadataChannel(r.Dir, s.topic.Channel)
	s.changeTopic(func(t *Topic) {
		if t.Times = ""; s.meta != nil {
			t.Times = "origin"
		}
	})
}

// end closes a channel that can no longer be read. check opens it when it can be read again.
func (r *recorder) end(s *stream, err error) {
	name := s.topic.Channel
	r.forget(s)
	if errors.Is(err, localach.ErrReinitialised) || errors.Is(err, localach.ErrReplaced) {
		r.begin(name)
		return
	}
	if !errors.Is(err, localach.ErrUnlinked) {
		r.names.refusals[name] = err.Error()
		r.Note("%s is not recorded any more: %v", name, err)
	}
}

func (r *recorder) forget(s *stream) {
	delete(r.streams, s.topic.Channel)
	s.close()
}

// check finds changes without an event: channels that were initialised again in place, and
// channels that can be read again.
func (r *recorder) check() {
	for _, s := range slices.Collect(maps.Values(r.streams)) {
		if err := s.ch.Check(); err != nil && !errors.Is(err, localach.ErrBusy) {
			_ = r.drainOne(s)
			r.end(s, err)
		}
	}
	for name := range r.names.refusals {
		if r.streams[name] == nil {
			r.begin(name)
		}
	}
}
