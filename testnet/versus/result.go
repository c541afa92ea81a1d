package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"time"

	"achbridge/bridge/age"
)

// result is one run of one tool.
type result struct {
	Scenario string     `json:"scenario"`
	Link     string     `json:"link"`
	Tool     string     `json:"tool"`
	Turn     int        `json:"turn"`
	Err      string     `json:"error,omitempty"`
	Groups   []ageStats `json:"groups,omitempty"`
	CPU      []float64  `json:"processor_ms_per_s,omitempty"` // CPU time of the tool on the robot and on the PC
	Kernel   []kernel   `json:"kernel,omitempty"`             // counts of the robot and of the PC, with --syscalls
}

// ageStats are the statistics of the channels of one kind. Age is the age of information:
// the age of the newest frame on the PC, averaged over time. Delay is the age of a frame
// when the reader got it. All times are in milliseconds.
type ageStats struct {
	Load     string  `json:"load"`
	Age      float64 `json:"age_mean_ms"`
	AgeP99   float64 `json:"age_p99_ms"`
	DelayP50 float64 `json:"delay_p50_ms"`
	DelayP99 float64 `json:"delay_p99_ms"`
	DelayMax float64 `json:"delay_max_ms"`
	Frames   int     `json:"frames"`
	Lost     float64 `json:"lost"` // share of the frames that were put
}

// frame is a frame that the reader got.
type frame struct {
	channel  int
	number   uint64
	put, got time.Duration
}

const recordSize = 32

// readFrames reads the output of "ends read", sorted by channel.
func readFrames(path string) (list []frame, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(data)%recordSize != 0 {
		return nil, fmt.Errorf("reader: %d bytes are no records of %d", len(data), recordSize)
	}
	for record := range slices.Chunk(data, recordSize) {
		word := func(i int) uint64 { return binary.NativeEndian.Uint64(record[8*i:]) }
		list = append(list, frame{int(word(0)), word(1), time.Duration(word(2)), time.Duration(word(3))})
	}
	slices.SortStableFunc(list, func(a, b frame) int { return a.channel - b.channel })
	return list, nil
}

// summarize returns the statistics of the frames that were read from begin to end.
func summarize(load []group, frames []frame, begin, end time.Duration) (list []ageStats) {
	number := 0 // number of the channel
	for _, g := range load {
		sum, delays := ageStats{Load: g.String()}, []time.Duration(nil)
		first := number
		for range g.Count {
			own := ofChannel(frames, number)
			stat, counted, missed := ages(own, begin, end)
			sum.Age += milliseconds(stat.Mean) / float64(g.Count)
			sum.AgeP99 = max(sum.AgeP99, milliseconds(stat.P99))
			sum.Frames += counted
			sum.Lost += missed
			number++
		}
		for _, f := range frames {
			if f.channel >= first && f.channel < number && f.got >= begin && f.got < end {
				delays = append(delays, f.got-f.put)
			}
		}
		sum.Lost /= float64(max(1, sum.Frames)) + sum.Lost
		if slices.Sort(delays); len(delays) > 0 {
			at := func(share float64) float64 { return milliseconds(delays[int(share*float64(len(delays)-1))]) }
			sum.DelayP50, sum.DelayP99, sum.DelayMax = at(0.5), at(0.99), at(1)
		}
		list = append(list, sum)
	}
	return list
}

// ofChannel returns the frames of a channel.
func ofChannel(frames []frame, channel int) []frame {
	from, _ := slices.BinarySearchFunc(frames, channel, func(f frame, c int) int { return f.channel - c })
	to, _ := slices.BinarySearchFunc(frames, channel+1, func(f frame, c int) int { return f.channel - c })
	return frames[from:to]
}

// ages returns the ages of one channel's newest frame, how many frames arrived, and how
// many between them did not.
func ages(frames []frame, begin, end time.Duration) (stat age.Stat, counted int, missed float64) {
	const never = time.Hour // no budget
	var a age.History
	var watch *age.Watch
	newest := uint64(0)
	for _, f := range frames {
		if f.got >= end {
			break
		}
		if f.got >= begin {
			if watch == nil {
				watch = a.Watch(begin)
			}
			counted++
			if newest > 0 && f.number > newest {
				missed += float64(f.number - newest - 1)
			}
		}
		if f.number > newest {
			newest = f.number
			a.Put(f.got, f.put, never)
		}
	}
	if watch == nil {
		watch = a.Watch(begin)
	}
	return a.End(watch, end), counted, missed
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }
