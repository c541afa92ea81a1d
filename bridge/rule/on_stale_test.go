package rule

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSafeFrameIsReadOnceAndSentWithRequest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stop")
	if err := os.WriteFile(file, []byte("stop!"), 0o600); err != nil {
		t.Fatal(err)
	}
	request, err := ParseMirror("pc/goal,class=command,deadline=200ms,on_stale=put:"+file, readFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	var got Mirror
	if err := json.Unmarshal(text, &got); err != nil || got.QoS.Deadline != 200*time.Millisecond || got.QoS.OnStale != (OnStale{file, "stop!"}) {
		t.Errorf("got %+v, %v, want %+v", got.QoS, err, request.QoS)
	}
	got.QoS = got.QoS.WithoutFrame()
	if err := got.Check(); err == nil {
		t.Error("a safe frame without its bytes was taken")
	}
}

func TestInvalidDeadlinesAndSafeFramesAreRefused(t *testing.T) {
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, maxSafeFrame+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for option, want := range map[string]string{
		"deadline=0.5ms":             "want a time of 1ms at least",
		"deadline=-1s":               "want a time of 1ms at least",
		"on_stale=put:":              "want keep, or put:FILE",
		"on_stale=stop":              "want keep, or put:FILE",
		"on_stale=put:/no/such/file": "no such file",
		"on_stale=put:/dev/null":     "the file is empty",
		"on_stale=put:" + large:      "larger than 32 KiB",
		"class=command,on_stale=put:" + "on_stale_test.go":  "only a command channel with a deadline",
		"deadline=100ms,on_stale=put:" + "on_stale_test.go": "only a command channel with a deadline",
	} {
		if _, err := ParseMirror("pc/goal,"+option, readFile); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", option, err, want)
		}
	}
}

func readFile(file string, most int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}
