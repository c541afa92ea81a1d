package recording

import (
	"cmp"
	"context"
	"sync"

	"achbridge/bridge/status"
	"achbridge/localach"
)

// maxAsked is how many origins are asked at the same time.
const maxAsked = 8

// types is what is known of the types of frames. It belongs to the goroutine that reads.
type types struct {
	byName       map[string]*Type  // type by HOST/CHANNEL of a mirror or by the channel's name; nil if it has none
	layouts      map[string]string // hash of the layout from the origin of a mirror, by the mirror's name
	onlyByOrigin map[string]bool   // mirrors whose type only their origin has
	mismatches   map[string]bool   // channels with a frame that did not fit its type
	ask          func(*stream)     // asks the origin for the type of a stream
	asks         sync.WaitGroup
	answers      chan answer
}

// typeFor returns the type of a channel's frames. known is false if only the origin has the type.
func (r *recorder) typeFor(topic *Topic, tag localach.Tag) (t *Type, known bool) {
	name := cmp.Or(topic.Origin, topic.Channel)
	if t, ok := r.types.byName[name]; ok {
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
		r.types.byName[name] = t
	}
	return t, known
}

func (r *recorder) noType(topic *Topic, why error) {
	r.Note("%s is recorded without its type: %v", topic.Channel, why)
}

// answer is an origin's reply: the type of a stream's frames, nil if there is none.
type answer struct {
	s    *stream
	kind *Type
	err  error
}

// typeRequester asks origins for types in the background, until ctx ends, so that no other channel waits.
// A stream whose type is not known yet is held meanwhile.
func (r *recorder) typeRequester(ctx context.Context) func(*stream) {
	free := make(chan struct{}, maxAsked)
	return func(s *stream) {
		s.asking = true
		name := s.topic.Channel
		r.types.asks.Go(func() {
			select {
			case free <- struct{}{}:
			case <-ctx.Done():
				return
			}
			kind, err := r.OriginType(ctx, name)
			<-free
			select {
			case r.types.answers <- answer{s, kind, err}:
			case <-ctx.Done():
			}
		})
	}
}

// answered lets a stream go on that was held, or gives it a later type.
func (r *recorder) answered(a answer) {
	now, first := a.s.topic.Type, a.s.awaitsType
	a.s.asking, a.s.awaitsType = false, false
	a.s.due.Store(true)
	if a.err != nil {
		r.types.layouts[a.s.topic.Channel] = "" // it is asked again
	}
	switch {
	case a.err != nil && (first || now != nil):
		r.noType(a.s.topic, a.err)
	case a.kind != nil && now != nil && a.kind.Layout == now.Layout:
		return
	case a.kind != nil && !first:
		r.Note("%s: its frames have another type from now on: %s", a.s.topic.Channel, a.kind.Name)
	}
	r.types.byName[cmp.Or(a.s.topic.Origin, a.s.topic.Channel)] = a.kind
	topic := *a.s.topic
	topic.Type = a.kind
	a.s.topic = &topic
	delete(r.types.mismatches, topic.Channel)
}

// retype requests the type of a mirror from its origin again if the hash of its layout has changed, or if the daemon did
// not have the mirror yet at the first request. The known type stays if the mirror has no hash.
func (r *recorder) retype(m status.Mirror) {
	before, known := r.types.layouts[m.Name]
	s := r.streams[m.Name]
	if s != nil && s.asking || known && (m.TypeHash == "" || before == m.TypeHash) {
		return
	}
	r.types.layouts[m.Name] = m.TypeHash
	isMissing := s != nil && s.topic.Type == nil && m.TypeHash != ""
	if s != nil && (known || isMissing) && r.types.onlyByOrigin[m.Name] {
		r.types.ask(s)
	}
}

// topicFor returns the topic of a frame. A frame with a mismatch goes into a topic of the same name
// without a layout, so that no program decodes the frame wrongly.

func (r *recorder) topicFor(s *stream, frame []byte) *Topic {
	if s.topic.Type == nil {
		return s.topic
	}
	why := s.topic.Type.fits(frame)
	if why == nil {
		return s.topic
	}
	if name := s.topic.Channel; !r.types.mismatches[name] {
		r.types.mismatches[name] = true
		r.Note("%s: frames are recorded without a type: %v", name, why)
	}
	topic := *s.topic
	topic.Type, topic.Mismatch = nil, true
	return &topic
}
