package bridge

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/localach/damage"
)

// A host answers why it does not offer a channel. It reveals nothing about channels that its rules
// hide.
func TestOriginReportsWhyChannelIsNotOffered(t *testing.T) {
	inWorld(t, func(w *world) {
		robot, pc, _ := w.reading(rule.Grants{
			{Channels: []string{"secret*"}, Deny: true, From: "export[0]"},
			{Channels: []string{"plan*"}, Hosts: []string{"planner"}, From: "export[1]"},
			{Channels: []string{"*"}, From: "export[2]"},
		})
		pc.follows("robot.imu", 1, time.Second)
		robot.channel("secret", 4, 64)
		if err := os.WriteFile(string(robot.dir)+"/achshm-broken", []byte("this is no channel at all"), 0o666); err != nil {
			t.Fatal(err)
		}
		robot.channel("old", 4, 64).close()
		damage.Write(t, robot.dir, "old", 136, make([]byte, 4))       // no clock at this offset, as in Ach 1.x
		damage.Write(t, robot.dir, "old", 232, []byte{0x80, 1, 0, 0}) // no version has this kind of mutex
		time.Sleep(2 * time.Second)
		for _, q := range []struct {
			channel string
			cause   status.Cause
			text    string
		}{
			{"imu", "", ""},
			{"arms", status.CauseNoChannel, "arms: there is no such channel"},
			{"secret", status.CauseExportRule, "it does not let pc read secret: export[0] denies it"},
			{"secret2", status.CauseExportRule, "it does not let pc read secret2: export[0] denies it"},
			{"planned", status.CauseExportRule, "it does not let pc read planned: export[1] does not name the host pc"},
			{"broken", status.CauseCorrupt, "broken: "},
			{"old", status.CauseAch1x, "old: "},
			{"no/name", "", ""},
		} {
			begin := time.Now()
			cause, text := pc.node.Ask(context.Background(), "robot", q.channel)
			if cause != q.cause || !strings.HasPrefix(text, q.text) || q.text == "" && text != "" {
				t.Errorf("%s: got %q, %q, want %q, %q", q.channel, cause, text, q.cause, q.text)
			}
			if took := time.Since(begin); took > 100*time.Millisecond {
				t.Errorf("%s: the answer took %v, on a round trip of 20 ms", q.channel, took)
			}
		}
		if cause, text := pc.node.Ask(context.Background(), "nobody", "imu"); cause != "" || text != "" {
			t.Errorf("got %q, %q of a host without a link, want nothing", cause, text)
		}
		w.member("old", pc) // ignores unknown messages
		if cause, text := pc.node.Ask(context.Background(), "old", "imu"); cause != "" || text != "old does not answer; its achbridge may be of another version" {
			t.Errorf("got %q, %q of a host that knows no queries", cause, text)
		}
		if m := pc.mirror("robot.imu"); m.State != status.MirrorLive || len(pc.node.Status().Mirrors) != 1 {
			t.Errorf("got %v and %d mirrors, want the mirror as it was", m.State, len(pc.node.Status().Mirrors))
		}
		pc.node.loop.call(func() {
			for _, l := range pc.node.links {
				if len(l.queries.answers) > 0 {
					t.Errorf("%d questions are kept, want none", len(l.queries.answers))
				}
			}
		})
	})
}
