package status

import (
	"encoding/json"
	"testing"
)

// A newer daemon may report states and transports that an older client does not know.
func TestUnknownValuesRoundTrip(t *testing.T) {
	type report struct {
		Mirror MirrorState `json:"mirror"`
		Link   LinkState   `json:"link"`
		Push   PushState   `json:"push"`
		Peer   PeerState   `json:"peer"`
	}
	const text = `{"mirror":"paused","link":"noisy","push":"postponed","peer":"retired"}`
	var got report
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if want := (report{"paused", "noisy", "postponed", "retired"}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if again, err := json.Marshal(got); err != nil || string(again) != text {
		t.Errorf("got %s, %v, want %s", again, err, text)
	}
}
