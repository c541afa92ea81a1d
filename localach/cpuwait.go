package localach

import "time"

// CPUWait measures the share of the time that this process waited for a CPU: how long the thread that waited most was runnable
// without running. The zero value is ready for use. It is for one goroutine at a time.
type CPUWait struct {
	stat        schedstat
	sampledAt   time.Duration            // time of the last sample
	threadWaits map[string]time.Duration // wait of each thread until then; nil before the first sample
	shares      [2]float64               // shares between the last three samples, the newest first
	samples     int
}

// sampleEvery is the shortest time between two samples. A sample takes about 10 µs per thread.
const sampleEvery = time.Second

// Share returns the share of the last two seconds, 0 … 1. It may be called often, since it takes at most one sample a second.
// known is false until there are two samples, and always if the kernel has no /proc/self/task/*/schedstat.
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
	if total > 0 { // always 0 if the kernel does not count waits
		p.samples++
	}
}
