package recording

import "cmp"

// typeFor finds the type of a channel's frames.
func (r *recorder) typeFor(topic *Topic) *Type {
	if r.Type == nil {
		return nil
	}
	name := cmp.Or(topic.Origin, topic.Channel)
	if t, ok := r.types[name]; ok {
		return t
	}
	t, err := r.Type(name, topic.Channel)
	if err != nil {
		r.Note("%s is recorded without its type: %v", topic.Channel, err)
	}
	r.types[name] = t
	return t
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
