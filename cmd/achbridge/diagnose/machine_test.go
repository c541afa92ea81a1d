package diagnose

import (
	"strings"
	"testing"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
)

func TestCopiedImageIsReportedOnBothHosts(t *testing.T) {
	pc := status.Report{Host: "pc", Links: []status.Link{{Peer: "robot", State: status.LinkUp, Addr: "10.0.0.2:8076", CopyAt: "10.0.0.3:8076"}}}
	robot := status.Report{Host: "robot", Copied: "pc says: the machine at 10.0.0.3:8076 has the same node id as this host"}
	for host, s := range map[string]Snapshot{
		"pc":    {Host: "robot", Channel: "imu", After: pc},
		"robot": {Host: "robot", Channel: "imu", Self: true, After: robot},
	} {
		s.Apart = 1e9
		notes := Findings(s)
		last := notes[len(notes)-1]
		if last.Cause != status.CauseCopiedImage || last.Fix != CopiedFix {
			t.Errorf("on %s: got %+v, want cause %s", host, notes, status.CauseCopiedImage)
		}
		if list := Problems(Host{After: s.After}); len(list) != 1 || list[0].Cause != status.CauseCopiedImage {
			t.Errorf("troubles of %s: got %+v", host, list)
		}
	}
}

func TestFixForOtherMachineNamesSendingHost(t *testing.T) {
	pc := status.Report{Host: "pc", Locals: []status.Local{{Channel: "goal", Exported: true}}, Links: []status.Link{{Peer: "robot", State: status.LinkUp}},
		Pushes: []status.Push{{Push: rule.Push{Channel: "goal", Host: "robot"}, State: status.PushWaiting, Reason: "robot: it runs on another machine", Cause: status.CauseOtherMachine}}}
	robot := status.Report{Host: "robot", Links: []status.Link{{Peer: "pc", State: status.LinkUp}},
		Mirrors: []status.Mirror{{Host: "pc", Channel: "goal", Name: "pc.goal", State: status.MirrorRefused, Cause: status.CauseOtherMachine, RefusedBy: "pc"}}}
	for host, s := range map[string]Snapshot{
		"pc":    {Host: "pc", Channel: "goal", Self: true, After: pc},
		"robot": {Host: "pc", Channel: "goal", After: robot},
	} {
		s.Apart = 1e9
		const fix = "achbridge push goal robot --accept-machine"
		var found bool
		for _, f := range Findings(s) {
			found = found || f.Cause == status.CauseOtherMachine && strings.Contains(f.Fix, fix) && strings.HasPrefix(f.Fix, "on pc, ") == (host == "robot")
		}
		if !found {
			t.Errorf("on %s: got %+v, want cause other_machine and %q", host, Findings(s), fix)
		}
	}
}
