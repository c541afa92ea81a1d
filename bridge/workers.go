package bridge

import "sync"

// jobs starts goroutines for a group to wait for, without making anything new for
// each: there may be one for every frame. Safe for concurrent use.
type jobs struct {
	group *sync.WaitGroup
	idle  sync.Pool // of *job
}

type job struct {
	do  func()
	run func()
}

// start calls f in a goroutine.
func (s *jobs) start(f func()) {
	j, _ := s.idle.Get().(*job)
	if j == nil {
		j = &job{}
		j.run = func() {
			defer s.group.Done()
			j.do()
			j.do = nil
			s.idle.Put(j)
		}
	}
	j.do = f
	s.group.Add(1)
	go j.run()
}
