package recording

import (
	"testing"
	"time"
)

// Only frames whose time of capture is known say how late frames were read.
func TestLatenessIsThatOfDatedFrames(t *testing.T) {
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
