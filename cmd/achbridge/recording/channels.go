package recording

import (
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"achbridge/bridge"
	"achbridge/bridge/mirror"
	"achbridge/bridge/rule"
	"achbridge/localach"
)

// wanted reports whether a channel is to be recorded. Companions of mirrors are only by
// their exact name: what they tell is in the publish times. So are mirrors that go with
// who looks at them.
func (r *recorder) wanted(name string) bool {
	if slices.Contains(r.Patterns, name) {
		return true
	}
	if len(r.Patterns) > 0 && !slices.ContainsFunc(r.Patterns, func(p string) bool { ok, _ := path.Match(p, name); return ok }) {
		return false
	}
	ch, err := r.Dir.TryOpen(name)
	if err != nil {
		return true // opening it will say why
	}
	defer ch.Close()
	_, companion := mirror.MetaOf(name, ch.Tag())
	return !companion && !bridge.IsPeek(name, ch.Tag())
}

// changed follows the directory.
func (r *recorder) changed(e localach.Event) {
	if s := r.streams[e.Name]; s != nil {
		_ = r.drainOne(s) // what it held is still there for us
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

func (r *recorder) begin(name string) {
	s, err := openStream(r.Dir, name, r.Host)
	if err != nil {
		if r.failed[name] != err.Error() {
			r.failed[name] = err.Error()
			r.Note("%s is not recorded: %v", name, err)
		}
		return
	}
	if r.present[name] {
		s.skipToNewest()
	}
	delete(r.failed, name)
	delete(r.present, name) // the next of that name is another one
	s.topic.Origin = r.origins[name]
	r.streams[name] = s
	s.due.Store(true)
	s.notice = r.watcher.Watch(s.ch, func(uint64) {
		s.due.Store(true)
		poke(r.wake)
	})
}

// attach takes up the companion of a mirror that appeared, changed or vanished.
func (r *recorder) attach(s *stream) {
	_ = r.drainOne(s)
	s.meta.close()
	s.meta = openCompanion(r.Dir, s.topic.Channel)
	topic := *s.topic
	if topic.Times = ""; s.meta != nil {
		topic.Times = "origin"
	}
	s.topic = &topic
}

// end gives up a channel that cannot be read any more; it is opened again when it is
// good again.
func (r *recorder) end(s *stream, err error) {
	name := s.topic.Channel
	r.forget(s)
	if errors.Is(err, localach.ErrReinitialised) || errors.Is(err, localach.ErrReplaced) {
		r.begin(name)
		return
	}
	if !errors.Is(err, localach.ErrUnlinked) {
		r.failed[name] = err.Error()
		r.Note("%s is not recorded any more: %v", name, err)
	}
}

func (r *recorder) forget(s *stream) {
	delete(r.streams, s.topic.Channel)
	s.close()
}

// check finds what no event tells of: channels that were initialised anew in place, or
// that can be read again.
func (r *recorder) check() {
	for _, s := range slices.Collect(maps.Values(r.streams)) {
		if err := s.ch.Check(); err != nil && !errors.Is(err, localach.ErrBusy) {
			_ = r.drainOne(s)
			r.end(s, err)
		}
	}
	for name := range r.failed {
		if r.streams[name] == nil {
			r.begin(name)
		}
	}
}
