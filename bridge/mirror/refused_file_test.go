package mirror

import (
	"testing"

	"achbridge/bridge/rule"
	"achbridge/localach"
)

// A frame may overtake the origin's Subscribed reply, so it creates the file. If another channel took the name
// meanwhile, the frame is only refused.
func TestFirstFrameCreatesMirrorFile(t *testing.T) {
	dir := testDir(t)
	m := plannedMirror(t, dir, "m")
	m.expect(1, rule.QoS{})
	m.Put(came(1, frame(1, 64)))
	if got := newestSeq(t, dir, "m"); got != 1 {
		t.Errorf("the mirror is at %d, want 1", got)
	}
	other := plannedMirror(t, dir, "o")
	have, _ := other.expect(1, rule.QoS{})
	ch, err := dir.Create("o", localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 2, FrameSize: 8}})
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	other.Put(came(1, frame(1, 64)))
	if _, err := other.Begin(1, 1, have); err != nil || ch.LastSeq() != 0 {
		t.Errorf("got %v and a channel at %d, want none of it written", err, ch.LastSeq())
	}
	if _, _, err := other.Check(); err == nil {
		t.Error("got a live mirror without a file, want a reason")
	}
}

func TestMirrorHasNoFileBeforeOriginReplies(t *testing.T) {
	m := plannedMirror(t, testDir(t), "m")
	if _, mustRetransmit, err := m.Check(); mustRetransmit || err != nil {
		t.Errorf("got %v, %v, want no repair", mustRetransmit, err)
	}
}
