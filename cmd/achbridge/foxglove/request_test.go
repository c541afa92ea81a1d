package foxglove

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// FuzzRequest parses messages of untrusted viewers.
func FuzzRequest(f *testing.F) {
	for _, text := range []string{
		`{"op":"subscribe","subscriptions":[{"id":0,"channelId":3},{"id":1,"channelId":5}]}`, `{"op":"unsubscribe","subscriptionIds":[0,1]}`,
		`{"op":"subscribe","subscriptions":[{"id":4294967296,"channelId":3}]}`, `{"op":"subscribe","subscriptions":[{"id":1.5}]}`, `{"op":"fetchAsset"}`,
		`[]`, `{}`, "\xff", `{"op":"unsubscribe","subscriptionIds":[1e300]}`, "\x01\x00\x00\x00\x00data", "\x02",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parseText(text)
		if err == nil && (!utf8.Valid(text) || !json.Valid(text)) {
			t.Errorf("%q: accepted, and it is not valid", text)
		}
		if err == nil && r.refused != "" && r.subscribe != nil {
			t.Errorf("%q: both refused and done", text)
		}
		if err == nil && (!utf8.ValidString(r.refused) || len(r.refused) > 400) {
			t.Errorf("%q: got reason %q, want a short text", text, r.refused)
		}
		var again struct {
			Subscriptions []struct {
				ID        uint32 `json:"id"`
				ChannelID uint32 `json:"channelId"`
			} `json:"subscriptions"`
			SubscriptionIDs []uint32 `json:"subscriptionIds"`
		}
		if err == nil && r.subscribe != nil {
			back, _ := json.Marshal(map[string]any{"subscriptions": asJSON(r.subscribe)})
			if json.Unmarshal(back, &again) != nil || len(again.Subscriptions) != len(r.subscribe) || again.Subscriptions[0].ID != r.subscribe[0].id {
				t.Errorf("%q: got %+v, want subscriptions that can be written again", text, r.subscribe)
			}
		}
		if r, err := parseBinary(text); (err == nil) == (r.refused == "") {
			t.Errorf("%q as binary: got %+v, %v, want a reason", text, r, err)
		}
	})
}

func asJSON(list []subscription) (out []map[string]uint32) {
	for _, s := range list {
		out = append(out, map[string]uint32{"id": s.id, "channelId": s.channel})
	}
	return out
}
