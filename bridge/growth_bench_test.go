package bridge

import (
	"fmt"
	"testing"
	"time"
)

// growth tells how the cost of each frame, or of each channel or peer, compares to that
// of the run before, with fewer of them: more than 1 is faster than linear growth of
// the whole.
type growth struct {
	b    *testing.B
	last map[string]float64
}

func (g *growth) report(n int, what string, each float64) {
	g.b.ReportMetric(each, fmt.Sprintf("%s-at-%d", what, n))
	if before, ok := g.last[what]; ok {
		g.b.ReportMetric(each/before, fmt.Sprintf("%s-at-%d/linear≤1", what, n))
	}
	g.last[what] = each
}

// grow measures a sender and its receivers, whose frames come at rate in all.
func (g *growth) grow(channels, peers, of int) {
	const hz, size, during = 200, 64, 2 * time.Second
	h, dir := newHosts(g.b, channels, size, peers)
	h.receiver.ask("mirror robot/*")
	h.write(dir, channels, hz, size)
	h.flows(float64(channels * peers * hz / 2))
	sent, received := h.costs(during)
	h.sender.ask("free")
	g.report(of, "sender-ns/frame", float64(sent.CPU)/float64(sent.Frames))
	g.report(of, "receiver-ns/frame", float64(received.CPU)/float64(received.Frames))
	g.report(of, "sender-kB/each", float64(h.sender.spent().Memory)/1e3/float64(of))
	h.end()
}

// BenchmarkChannels is what nodes cost for 1, 10, 100 and 500 channels of 64 bytes at
// 200 Hz. It must grow no faster than linearly.
func BenchmarkChannels(b *testing.B) {
	for b.Loop() {
		g := &growth{b: b, last: map[string]float64{}}
		for _, n := range []int{1, 10, 100, 500} {
			g.grow(n, 1, n)
		}
		b.ReportMetric(0, "ns/op")
	}
}

// BenchmarkPeers is the same for 1, 4 and 16 peers that mirror ten channels each, all
// peers in one process.
func BenchmarkPeers(b *testing.B) {
	for b.Loop() {
		g := &growth{b: b, last: map[string]float64{}}
		for _, n := range []int{1, 4, 16} {
			g.grow(10, n, n)
		}
		b.ReportMetric(0, "ns/op")
	}
}
