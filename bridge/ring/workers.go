package ring

import "sync"

// Workers starts goroutines for a WaitGroup without allocating memory for each goroutine, since there may be one for every
// frame. Safe for concurrent use.
type Workers struct {
	group *sync.WaitGroup
	idle  sync.Pool // contains *worker
}

type worker struct {
	do  func()
	run func()
}

// NewWorkers returns Workers that add their goroutines to group.
func NewWorkers(group *sync.WaitGroup) *Workers { return &Workers{group: group} }

// Start calls f in a goroutine.
func (s *Workers) Start(f func()) {
	w, _ := s.idle.Get().(*worker)
	if w == nil {
		w = &worker{}
		w.run = func() {
			defer s.group.Done()
			w.do()
			w.do = nil
			s.idle.Put(w)
		}
	}
	w.do = f
	s.group.Add(1)
	go w.run()
}
