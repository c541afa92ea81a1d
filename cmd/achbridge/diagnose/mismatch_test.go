package diagnose

import (
	"strings"
	"testing"

	"achbridge/bridge/status"
)

func TestMismatchIsDiagnosisOnlyWithoutOtherProblem(t *testing.T) {
	bad := &status.Mismatch{Why: "48 bytes do not fit imu, which has 64", TypeFrom: status.TypeFromOrigin}
	s := sample(func(_ *Snapshot, m *status.Mirror, _ *status.Link) { m.Mismatch = bad })
	list := Findings(s)
	if f := list[0]; f.Cause != status.CauseTypeMismatch || f.Text != "frames of robot.imu do not fit its type: 48 bytes do not fit imu, which has 64" ||
		!strings.HasPrefix(f.Fix, "on robot, or where that mirrors it from: ") || !strings.Contains(strings.Join(f.Evidence, "|"), "that robot sent|else all is well: robot.imu is as fresh") {
		t.Errorf("got %+v", f)
	}
	problems := Problems(Host{Before: s.Before, After: s.After, Apart: s.Apart})
	if len(problems) != 1 || problems[0].Cause != status.CauseTypeMismatch || problems[0].Channels[0] != "robot.imu" {
		t.Errorf("got %+v, want one trouble", problems)
	}

	s = sample(func(_ *Snapshot, m *status.Mirror, _ *status.Link) {
		m.Mismatch, m.Delivered, m.Superseded = bad, 3000, 3000
	})
	if list := Findings(s); list[0].Cause == status.CauseTypeMismatch || list[len(list)-1].Cause != status.CauseTypeMismatch {
		t.Errorf("got %+v, want the mismatch only as a note", list)
	}
}

func TestMismatchOfLocalChannelIsReported(t *testing.T) {
	bad := &status.Mismatch{Why: "48 bytes do not fit imu, which has 64", TypeFrom: status.TypeFromFile}
	r := status.Report{Host: "robot", Locals: []status.Local{{Channel: "imu", Seq: 5, Exported: true}}}
	s := Snapshot{Host: "robot", Channel: "imu", Self: true, Apart: 1e9, Before: r, After: r}
	s.After.Locals = []status.Local{{Channel: "imu", Seq: 105, Exported: true, Mismatch: bad}}
	f := Findings(s)[0]
	if f.Cause != status.CauseTypeMismatch || !strings.HasPrefix(f.Fix, "make the type again") || !strings.Contains(f.Evidence[1], "this host's configuration") {
		t.Errorf("got %+v", f)
	}
	problems := Problems(Host{Before: s.Before, After: s.After, Apart: s.Apart})
	if len(problems) != 1 || problems[0].Cause != status.CauseTypeMismatch || problems[0].Host != "" {
		t.Errorf("got %+v, want one trouble", problems)
	}
}

func TestNoteShowsMismatchAfterOtherReason(t *testing.T) {
	bad := &status.Mismatch{Why: "48 bytes do not fit imu, which has 64"}
	for want, m := range map[string]status.Mirror{
		"48 bytes do not fit imu, which has 64":                           {Mismatch: bad},
		"robot is not heard; 48 bytes do not fit imu, which has 64":       {Mismatch: bad, Reason: "robot is not heard"},
		"no frame in time for 5 s; 48 bytes do not fit imu, which has 64": {Mismatch: bad, LateS: 5},
	} {
		if got := NoteOf(m); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestUnshiftedStampsAreANote(t *testing.T) {
	s := sample(func(_ *Snapshot, m *status.Mirror, _ *status.Link) {
		m.Unshifted = &status.Unshifted{Host: "robot", Rule: "sns", UptimeS: 3600, OriginUptimeS: 864_000}
	})
	list := Findings(s)
	if len(list) != 2 || list[0].Cause != Well || !strings.Contains(list[1].Text, "robot has been up for 10 d, this host for 1 h") || !strings.Contains(list[1].Fix, `set stamps: "sns" for robot/imu`) {
		t.Errorf("got %+v, want a note with both uptimes", list)
	}
}
