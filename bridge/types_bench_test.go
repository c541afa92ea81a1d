package bridge

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"achbridge/bridge/layout"
)

// layoutsOf is a layout of frames of so many bytes for all channels; none for 0.
func layoutsOf(bytes string) []ChannelLayout {
	size, err := strconv.Atoi(bytes)
	if err != nil || size == 0 {
		return nil
	}
	l := layout.Layout{Name: "t", Size: size}
	for i := range size / 4 {
		l.Fields = append(l.Fields, layout.Field{Name: fmt.Sprint("f", i), Offset: 4 * i, Type: layout.Float})
	}
	packed, err := l.Pack()
	if err != nil {
		panic(err)
	}
	return []ChannelLayout{{Channels: "*", Packed: packed}}
}

// lookAtTypes asks the origins of all mirrors for their types.
func lookAtTypes(n *Node) error {
	for _, m := range n.StatusNow().Mirrors {
		if _, err := n.Layout(context.Background(), m.Name); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkTypes is the processor time of the nodes for a frame of 100 channels of 64 bytes at 1 kHz that have a type,
// as a ratio to that in the turns before and after, without one: the median of rounds. Wanted is at most 1.02. Turns without
// a type are compared in the same way as the control: what it is off 1 is the machine's.
func BenchmarkTypes(b *testing.B) {
	const channels, hz, size = 100, 1000, 64
	const rounds, turn = 12, 300 * time.Millisecond
	for b.Loop() {
		h, dir := newHosts(b, channels, size, 1)
		h.receiver.ask("mirror robot/*")
		h.write(dir, channels, hz, size)
		h.flows(channels * hz / 2)
		perFrame := func(types int) (costs [2]float64) {
			h.sender.ask(fmt.Sprint("types ", types))
			time.Sleep(100 * time.Millisecond) // the catalog gets there
			h.receiver.ask("look")
			s, r := h.costs(turn)
			return [2]float64{float64(s.CPU) / float64(s.Frames), float64(r.CPU) / float64(r.Frames)}
		}
		var typed, control [2][]float64
		for range rounds {
			before, with, after, again := perFrame(0), perFrame(size), perFrame(0), perFrame(0)
			for i := range typed {
				typed[i] = append(typed[i], 2*with[i]/(before[i]+after[i]))
				control[i] = append(control[i], 2*after[i]/(before[i]+again[i]))
			}
		}
		for i, who := range []string{"sender", "receiver"} {
			slices.Sort(typed[i])
			slices.Sort(control[i])
			b.ReportMetric(typed[i][rounds/2], who+"-typed/not≤1.02")
			b.ReportMetric(control[i][rounds/2], who+"-control")
		}
		b.ReportMetric(0, "ns/op")
		h.end()
	}
}
