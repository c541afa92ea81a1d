package localach

import "time"

// CPUWait measures for which share of the time this process waited for a processor. That is how long the thread that
// waited most was ready to run, but did not: an idle thread does not count. The zero value is ready for use, by one goroutine
// at a time.
type CPUWait struct {
	stat        schedstat
	sampledAt   time.Duration            // of the last look
	threadWaits map[string]time.Duration // by each thread, until then; nil: it has not looked
	shares      [2]float64               // between the last three looks, the newest first
	samples     int
}

// sampleEvery is the least time between two looks. A look takes some 10 µs a thread.
const sampleEvery = time.Second

// Share returns the share of the last two seconds, 0 … 1. It may be called often: it looks at most once a second. known is
// false until two looks are made, and for ever if the kernel does not tell (/proc/self/task/*/schedstat).
func (p *CPUWait) Share(now time.Duration) (share float64, known bool) {
	if p.threadWaits == nil || now >= p.sampledAt+sampleEvery {
		p.sample(now)
	}
	switch p.samples {
	case 0, 1:
		return 0, false
	case 2:
		return p.shares[0], true
	}
	return (p.shares[0] + p.shares[1]) / 2, true
}

func (p *CPUWait) sample(now time.Duration) {
	waited, most, total := map[string]time.Duration{}, time.Duration(0), time.Duration(0)
	for _, path := range p.stat.list() {
		waited[path], _ = p.stat.read(path)
		total += waited[path]
		most = max(most, waited[path]-p.threadWaits[path])
	}
	if p.samples > 0 {
		p.shares = [2]float64{min(1, float64(most)/float64(now-p.sampledAt)), p.shares[0]}
	}
	p.sampledAt, p.threadWaits = now, waited
	if total > 0 { // else the kernel does not tell
		p.samples++
	}
}
