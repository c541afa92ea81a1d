package recording

import (
	"cmp"
	"context"

	"achbridge/localach"
)

// A recording takes the type of a channel's frames from this host, or of a mirror from its origin.
const (
	FromFile   = "file"
	FromOrigin = "origin"
)

// maxAsked is how many origins are asked at the same time.
const maxAsked = 8

// typeFor finds the type of a channel's frames. known is false if only its origin can tell.
func (r *recorder) typeFor(topic *Topic, tag localach.Tag) (t *Type, known bool) {
	name := cmp.Or(topic.Origin, topic.Channel)
	if t, ok := r.types[name]; ok {
		return t, true
	}
	var err error
	if r.Type != nil {
		if t, err = r.Type(name, topic.Channel); err != nil {
			r.noType(topic, err)
		}
	}
	known = err != nil || t != nil || r.OriginType == nil || tag == localach.Tag{}
	if known {
		r.types[name] = t
	}
	return t, known
}

func (r *recorder) noType(topic *Topic, why error) {
	r.Note("%s is recorded without its type: %v", topic.Channel, why)
}

// answer is the type of a stream's frames, of its origin; nil: there is none.
type answer struct {
	s    *stream
	kind *Type
	err  error
}

// askers asks origins for types in the background, until ctx ends, so that no other channel waits.
// The stream is held meanwhile: its frames stay in the ring.
func (r *recorder) askers(ctx context.Context) func(*stream) {
	free := make(chan struct{}, maxAsked)
	return func(s *stream) {
		s.held = true
		name := s.topic.Channel
		r.asking.Go(func() {
			select {
			case free <- struct{}{}:
			case <-ctx.Done():
				return
			}
			kind, err := r.OriginType(ctx, name)
			<-free
			select {
			case r.answers <- answer{s, kind, err}:
			case <-ctx.Done():
			}
		})
	}
}

// answered lets a stream go on that was held.
func (r *recorder) answered(a answer) {
	if a.err != nil {
		r.noType(a.s.topic, a.err)
	}
	r.types[cmp.Or(a.s.topic.Origin, a.s.topic.Channel)] = a.kind
	topic := *a.s.topic
	topic.Type = a.kind
	a.s.topic = &topic
	a.s.held = false
	a.s.due.Store(true)
}

// topicFor is the topic of a frame. A frame that does not fit the channel's type goes into a topic of
// the same name without one, so that nobody decodes it wrongly.
func (r *recorder) topicFor(s *stream, frame []byte) *Topic {
	if s.topic.Type == nil {
		return s.topic
	}
	why := s.topic.Type.fits(frame)
	if why == nil {
		return s.topic
	}
	if name := s.topic.Channel; !r.misfits[name] {
		r.misfits[name] = true
		r.Note("%s: frames are recorded without a type: %v", name, why)
	}
	topic := *s.topic
	topic.Type = nil
	return &topic
}
