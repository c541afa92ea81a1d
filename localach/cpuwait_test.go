package localach

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// fakeProc is a directory with files like those of /proc/self/task.
type fakeProc struct {
	*testing.T
	dir string
}

func newFakeProc(t *testing.T, threads int) fakeProc {
	k := fakeProc{t, t.TempDir()}
	for i := range threads {
		if err := os.Mkdir(filepath.Join(k.dir, fmt.Sprint(i)), 0o755); err != nil {
			t.Fatal(err)
		}
		k.setWait(i, 100*time.Microsecond)
	}
	return k
}

// setWait sets the total wait of a thread.
func (k fakeProc) setWait(thread int, d time.Duration) {
	k.Helper()
	text := fmt.Sprintf("%d %d 7\n", 12345, d)
	if err := os.WriteFile(filepath.Join(k.dir, fmt.Sprint(thread), "schedstat"), []byte(text), 0o644); err != nil {
		k.Fatal(err)
	}
}

func TestCPUWaitIsLongestThreadWait(t *testing.T) {
	const ms = time.Millisecond
	k := newFakeProc(t, 3)
	p := CPUWait{stat: schedstat{dir: k.dir}}
	var waited [3]time.Duration
	for _, c := range []struct {
		at    time.Duration
		waits [3]time.Duration // wait of each thread since the previous step
		want  float64          // below 0 means unknown
	}{
		{1000 * ms, [3]time.Duration{500 * ms, 0, 0}, -1},
		{2000 * ms, [3]time.Duration{100 * ms, 200 * ms, 0}, 0.2},
		{3000 * ms, [3]time.Duration{800 * ms, 100 * ms, 700 * ms}, 0.5},
		{3500 * ms, [3]time.Duration{0, 0, 300 * ms}, 0.5}, // too early for a sample
		{4000 * ms, [3]time.Duration{}, 0.55},
		{5000 * ms, [3]time.Duration{0, 3000 * ms, 0}, 0.65}, // limited to 1, since part of the wait was before
		{7000 * ms, [3]time.Duration{}, 0.5},
		{8000 * ms, [3]time.Duration{}, 0},
	} {
		for thread, d := range c.waits {
			waited[thread] += d
			k.setWait(thread, waited[thread])
		}
		got, known := p.Share(c.at)
		if known != (c.want >= 0) || known && math.Abs(got-c.want) > 1e-9 {
			t.Errorf("at %v: got %.3f, known %v; want %.3f", c.at, got, known, c.want)
		}
	}
}

func TestCPUWaitSamplesAsOftenAsAsked(t *testing.T) {
	const ms = time.Millisecond
	k := newFakeProc(t, 1)
	p := CPUWait{Every: 100 * ms, stat: schedstat{dir: k.dir}}
	k.setWait(0, 10*ms)
	p.Share(1000 * ms)
	k.setWait(0, 30*ms)
	if share, known := p.Share(1099 * ms); known {
		t.Errorf("got %.3f after 99 ms, want that it is not known", share)
	}
	if share, known := p.Share(1100 * ms); !known || math.Abs(share-0.2) > 1e-9 {
		t.Errorf("got %.3f, known %v after 100 ms; want 0.2", share, known)
	}
}

func TestCPUWaitIsUnknownWithoutSchedstat(t *testing.T) {
	p := CPUWait{stat: schedstat{dir: t.TempDir()}}
	for at := range 5 {
		if share, known := p.Share(time.Duration(at) * time.Second); known {
			t.Errorf("got %.3f after %d s, want that it is not known", share, at)
		}
	}
}

// The kernel of this machine counts waits, or Share is unknown.
func TestCPUWaitOfThisProcess(t *testing.T) {
	var p CPUWait
	p.Share(time.Second)
	if share, known := p.Share(2 * time.Second); known && (share < 0 || share > 1) {
		t.Errorf("got %.3f, want 0 … 1", share)
	}
}

func BenchmarkCPUWait(b *testing.B) {
	var p CPUWait
	at := time.Duration(0)
	for b.Loop() {
		at += sampleEvery
		p.Share(at)
	}
}
