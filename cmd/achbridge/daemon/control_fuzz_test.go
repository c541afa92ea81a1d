package daemon

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"achbridge/bridge/rule"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/config"
)

// FuzzControlRequest tests that the bodies and queries that the control API accepts keep
// their meaning when they are encoded and decoded again.
func FuzzControlRequest(f *testing.F) {
	for _, body := range []string{
		`{"host":"krang","channel":"imu","as":"imu","qos":{"budget_ms":20,"max_rate_hz":0.5,"priority":7,"mode":"newest","compress":"zstd","late":"drop","class":"state"}}`,
		`{"host":"krang","channel":"goal","qos":{"budget_ms":50,"priority":4,"mode":"newest","compress":"auto","late":"drop","class":"command","deadline_ms":200,"on_stale":"put:stop","on_stale_frame":"AAAA"}}`,
		`{"host":"krang","channel":"log","remove":true}`,
		`{"channel":"goal","host":"krang","as":"plan","qos":{"priority":0,"budget_ms":1e300}}`,
		`{"host":"*","channel":"[","qos":{"max_rate_hz":-1}} {}`,
		`{"qos":{"budget_ms":1e-300,"deadline_ms":9e18,"priority":8,"mode":"?"}}`,
		"[]", "null", "{", `{"host":"\u0000/..","channel":"a/b"}`,
	} {
		f.Add(body, "krang/imu")
	}
	for _, address := range []string{"imu", "ach://krang/*", "*/*", "//", "krang/", "[a-/x", "\x00"} {
		f.Add("{}", address)
	}
	cfg, err := config.Source{Env: func(string) string { return "" }}.Read("", nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body, address string) {
		requestKeepsItsMeaning(t, body, rule.Mirror.Check)
		requestKeepsItsMeaning(t, body, rule.Push.Check)
		requestKeepsItsMeaning(t, body, func(api.UnmirrorRequest) error { return nil })
		if e, err := cfg.Explain(address, nil); err == nil && (len(e.Judgements) == 0 || !strings.Contains(e.Channel, "/")) {
			t.Errorf("Explain(%q) = %+v, want verdicts and a channel HOST/CHANNEL", address, e)
		}
		if a, err := rule.ParseAddress(address); err == nil {
			again, err := rule.ParseAddress(a.String())
			if err != nil || again != a {
				t.Errorf("ParseAddress(%q) = %v, which is parsed as %v, %v", address, a, again, err)
			}
		}
	})
}

// requestKeepsItsMeaning decodes body, and checks that a request without problems is the same after encoding and decoding.
func requestKeepsItsMeaning[T any](t *testing.T, body string, check func(T) error) {
	decode := func(text string) (v T, err error) {
		err = read(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(text)), &v)
		if err == nil {
			err = check(v)
		}
		return v, err
	}
	v, err := decode(body)
	if err != nil {
		return
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("%+v, of %q: %v", v, body, err)
	}
	again, err := decode(string(text))
	if err != nil {
		t.Fatalf("%q, written %s: %v", body, text, err)
	}
	if twice, err := json.Marshal(again); err != nil || string(twice) != string(text) {
		t.Errorf("%q, written %s, is %s, %v", body, text, twice, err)
	}
}
