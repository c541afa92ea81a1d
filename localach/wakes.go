package localach

// WakesReaders reports whether a put of this program wakes readers that wait on a channel's condition variable. It cannot if
// the layout of these variables in the program's C library is unknown here. Readers that wait with a time limit then go on
// when it is over.
func WakesReaders() bool { return wakesReaders() }
