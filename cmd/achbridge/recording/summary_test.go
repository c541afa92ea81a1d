package recording

import (
	"testing"
	"time"
)

// Other programs write messages in any order, and the wall clock may have been set back.
func TestSummarySpansMinAndMaxLogTime(t *testing.T) {
	s, channels := &Summary{}, map[string]*ChannelSummary{}
	begin := time.Unix(1000, 0)
	for _, after := range []time.Duration{5, 2, 9, 4, 7} {
		s.add(channels, Record{Name: "imu", Log: begin.Add(after * time.Second)})
	}
	s.finish(channels)
	if !s.Start.Equal(begin.Add(2*time.Second)) || !s.End.Equal(begin.Add(9*time.Second)) || s.Seconds != 7 {
		t.Errorf("got %v to %v, %v s, want the second 2 to 9", s.Start, s.End, s.Seconds)
	}
	if hz := s.Channels[0].Hz; hz != 4.0/7 {
		t.Errorf("got %v Hz, want 4 frames in 7 s", hz)
	}
}

func TestLatenessNeedsCaptureTime(t *testing.T) {
	c := &ChannelSummary{}
	now := time.Unix(1000, 0)
	plain, dated := &Topic{}, &Topic{Times: "capture"}
	for _, r := range []Record{{Topic: plain}, {Topic: plain}, {Topic: dated}, {Topic: dated, Publish: now.Add(-100 * time.Millisecond)}} {
		r.Log = now
		if r.Publish.IsZero() {
			r.Publish = now
		}
		c.add(r)
	}
	s := &Summary{}
	s.finish(map[string]*ChannelSummary{"imu": c})
	if late := s.Channels[0].Late; late == nil || late.MeanMs != 100 || late.MaxMs != 100 {
		t.Errorf("got %+v, want 100 ms", late)
	}
}
