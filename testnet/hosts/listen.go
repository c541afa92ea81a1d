package hosts

// Listener is called for each frame that a host sends, before a link loses or delays
// it. It blocks the switch, so it must return soon. It must not call methods of the
// lab, and neither keep nor change the frame.
type Listener func(host string, frame []byte)

// Listen calls f for each frame from now on. It is not called after stop has returned.
func (l *Lab) Listen(f Listener) (stop func()) { return l.net.listen(f) }

func (e *ethernet) listen(f Listener) (stop func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.listeners = append(e.listeners, &f)
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		for i, other := range e.listeners {
			if other == &f {
				e.listeners = append(e.listeners[:i:i], e.listeners[i+1:]...)
				return
			}
		}
	}
}

// notifyListeners calls the listeners with a frame. e.mu must be held.
func (e *ethernet) notifyListeners(from int, frame []byte) {
	for _, f := range e.listeners {
		(*f)(e.names[from], frame)
	}
}
