package localach

// WakesReaders reports whether frames of ours wake the readers that wait on a channel's condition variable. False: this
// program's C library lays such variables out in a way that is not known here; those who wait with a time limit read on when it
// is over.
func WakesReaders() bool { return wakesReaders() }
