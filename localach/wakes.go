package localach

// WakesReaders reports whether puts of this program wake readers that wait on a channel's condition variable. They do not if the
// layout of these variables in this program's C library is unknown. Readers with a time limit then wait until it is over.
func WakesReaders() bool { return wakesReaders() }
