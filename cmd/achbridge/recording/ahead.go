package recording

import "time"

// frame is a frame that waits for its time to be put.
type frame struct {
	at, log time.Time // when to put it, on the file's clock; when the recorder had read it
	n       int       // its place in the file
	topic   Topic
	data    []byte
}

// frames is a heap with the next frame to put on top.
type frames []frame

func (f frames) Len() int { return len(f) }

func (f frames) Less(i, j int) bool {
	if !f[i].at.Equal(f[j].at) {
		return f[i].at.Before(f[j].at)
	}
	return f[i].n < f[j].n
}

func (f frames) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *frames) Push(x any)   { *f = append(*f, x.(frame)) }

func (f *frames) Pop() any {
	last := len(*f) - 1
	x := (*f)[last]
	(*f)[last] = frame{}
	*f = (*f)[:last]
	return x
}
