package bridge

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestStateMirrorIsStaleWithoutFramesAndGetsNone(t *testing.T) {
	inFlow(t, "delay=5ms", QoS{Deadline: 100 * milli}, 64, func(f *flow) {
		f.put()
		f.holds(1, time.Second)
		time.Sleep(time.Second)
		m := f.pc.mirror(flowName)
		if m.State != stateStale || m.StaleS < 0.89 || m.StaleS > 0.91 || !strings.Contains(m.Reason, "no frame for 1s, its deadline is 100ms") {
			t.Errorf("got %s for %v s (%s), want it stale for 0.9 s", m.State, m.StaleS, m.Reason)
		}
		if n := f.kept(); n != 1 {
			t.Errorf("%d frames are in the mirror, want one", n)
		}
		f.put()
		f.holds(2, time.Second)
		if m := f.pc.mirror(flowName); m.State != stateLive || m.StaleS != 0 {
			t.Errorf("got %s, stale for %v s, want it live", m.State, m.StaleS)
		}
		f.requalify(QoS{})
		time.Sleep(time.Second)
		if m := f.pc.mirror(flowName); m.State != stateLive {
			t.Errorf("without a deadline: got %s", m.State)
		}
	})
}

func TestSafeFrameIsReadOnceAndTravelsWithTheWish(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stop")
	if err := os.WriteFile(file, []byte("stop!"), 0o600); err != nil {
		t.Fatal(err)
	}
	wish, err := ParseMirror("pc/goal,class=command,deadline=200ms,on_stale=put:" + file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(wish)
	if err != nil {
		t.Fatal(err)
	}
	var got Mirror
	if err := json.Unmarshal(text, &got); err != nil || got.QoS.Deadline != 200*milli || got.QoS.OnStale != (OnStale{file, "stop!"}) {
		t.Errorf("got %+v, %v, want %+v", got.QoS, err, wish.QoS)
	}
	got.QoS = got.QoS.shown()
	if err := got.Check(); err == nil {
		t.Error("a safe frame without its bytes was taken")
	}
}

func TestDeadlinesAndSafeFramesThatCannotBeAreRefused(t *testing.T) {
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
		"class=command,on_stale=put:" + "stale_test.go":  "only a command channel with a deadline",
		"deadline=100ms,on_stale=put:" + "stale_test.go": "only a command channel with a deadline",
	} {
		if _, err := ParseMirror("pc/goal," + option); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", option, err, want)
		}
	}
}
