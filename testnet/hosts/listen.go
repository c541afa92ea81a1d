package hosts

// Listener gets every frame that a host sends, as it enters the switch: before
// its cable loses or delays anything. It runs inside the switch: it must return
// soon, call nothing of the lab, and neither keep nor change the frame.
type Listener func(host string, frame []byte)

// Listen calls f from now on until stop returns.
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

// notifyListeners has the listeners hear a frame; e.mu is held.
func (e *ethernet) notifyListeners(from int, frame []byte) {
	for _, f := range e.listeners {
		(*f)(e.names[from], frame)
	}
}
