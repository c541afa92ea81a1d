package locals

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/ring"
	"achbridge/bridge/status"
	"achbridge/localach"
)

// testTable is a table whose time and facts a test sets. All channels are exported.
type testTable struct {
	*Table
	t       *testing.T
	now     time.Duration
	facts   Facts
	warned  []string
	closing []string
}

func newTestTable(t *testing.T, limit int) *testTable {
	tt := &testTable{t: t, facts: Facts{IsExported: true}}
	tt.Table = New(Config{
		Dir: localach.Dir(t.TempDir()), Limit: limit, Copying: &ring.Resources{}, Tick: time.Second / 4, Log: slog.New(slog.DiscardHandler),
		Now:     func() time.Duration { return tt.now },
		Warn:    func(message string, e status.Event, _ ...any) { tt.warned = append(tt.warned, message+": "+e.Channel) },
		Facts:   func(string) Facts { return tt.facts },
		Closing: func(channel string) { tt.closing = append(tt.closing, channel) },
	})
	t.Cleanup(tt.Close)
	return tt
}

// create makes a channel's file.
func (tt *testTable) create(name string, tag localach.Tag) {
	tt.t.Helper()
	ch, err := tt.cfg.Dir.Create(name, localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 4, FrameSize: 64}, Tag: tag})
	if err != nil {
		tt.t.Fatal(err)
	}
	ch.Close()
}

// check runs Check until retries are due.
func (tt *testTable) check() {
	tt.now += 2 * retryAfter
	tt.Check(func(name string) { tt.Update(name) })
}

func TestChannelAboveTheLimitIsOmittedUntilThereIsRoom(t *testing.T) {
	const limit = 5
	tt := newTestTable(t, limit)
	for i := range limit {
		name := fmt.Sprint("evil", i)
		tt.create(name, localach.Tag{})
		tt.Update(name)
	}
	tt.create("imu", localach.Tag{})
	tt.Update("imu")
	tt.check()
	imu := tt.Get("imu").Status()
	if imu.Exported || imu.Cause != status.CauseLimit || !strings.Contains(imu.Reason, "too many channels") || tt.openCount != limit {
		t.Errorf("got %d open channels and %+v, want %d and imu omitted, and why", tt.openCount, imu, limit)
	}
	if got := strings.Join(tt.warned, ","); got != "channel left out: imu" {
		t.Errorf("warned of %q, want imu once", got)
	}
	if err := tt.cfg.Dir.Unlink("evil0"); err != nil {
		t.Fatal(err)
	}
	tt.check() // finds that evil0 is gone
	tt.check()
	if c := tt.Get("imu"); tt.Get("evil0") != nil || !c.Status().Exported {
		t.Errorf("with room again: got %+v, want imu exported", c.Status())
	}
}

func TestOfferDependsOnFactsOfChannel(t *testing.T) {
	mirrorTag := localach.Tag{Node: [16]byte{1}, Channel: 2}
	for _, c := range []struct {
		what   string
		tag    localach.Tag
		facts  Facts
		isOpen bool
		reason string // prefix of the reason
	}{
		{"exported", localach.Tag{}, Facts{IsExported: true}, true, ""},
		{"no rule", localach.Tag{}, Facts{}, false, "not exported"},
		{"pushed", localach.Tag{}, Facts{IsPushed: true}, true, "only pushed"},
		{"a mirror by its file", mirrorTag, Facts{IsExported: true}, false, "it is a mirror"},
		{"a mirror by its writer", localach.Tag{}, Facts{IsExported: true, IsMirror: true}, false, "it is a mirror"},
		{"a relayed mirror", mirrorTag, Facts{IsRelayed: true}, true, ""},
		{"a temporary mirror", mirrorTag, Facts{IsRelayed: true, IsTemporary: true}, false, "it is a mirror"},
		{"fed by achd", localach.Tag{}, Facts{IsExported: true, IsRelayed: true, UnprovenHost: "achd://robot"}, false, "it comes from achd://robot"},
	} {
		tt := newTestTable(t, 1)
		tt.create("imu", c.tag)
		tt.facts = c.facts
		tt.Update("imu")
		if got := tt.Get("imu"); got.IsOpen() != c.isOpen || !strings.HasPrefix(got.Reason, c.reason) || got.Status().Exported != (c.isOpen && c.reason == "") {
			t.Errorf("%s: open %v, reason %q, want %v, %q", c.what, got.IsOpen(), got.Reason, c.isOpen, c.reason)
		}
	}
}

func TestUpdateClosesOnlyReplacedChannel(t *testing.T) {
	tt := newTestTable(t, 1)
	tt.create("imu", localach.Tag{})
	if !tt.Update("imu") || tt.Update("imu") || len(tt.closing) != 0 {
		t.Fatalf("closing %v, want one change and nothing closed", tt.closing)
	}
	before := tt.Get("imu").Ring.Epoch()
	if err := tt.cfg.Dir.Unlink("imu"); err != nil {
		t.Fatal(err)
	}
	tt.create("imu", localach.Tag{})
	if !tt.Update("imu") || len(tt.closing) != 1 || tt.Get("imu").Ring.Epoch() == before || tt.openCount != 1 {
		t.Errorf("replaced: closing %v, %d open, want imu closed once and open in another epoch", tt.closing, tt.openCount)
	}
	if err := tt.cfg.Dir.Unlink("imu"); err != nil {
		t.Fatal(err)
	}
	if !tt.Update("imu") || len(tt.closing) != 2 || tt.Get("imu") != nil || tt.openCount != 0 {
		t.Errorf("removed: closing %v, %d open, want it forgotten", tt.closing, tt.openCount)
	}
}
