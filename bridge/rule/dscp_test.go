package rule

import (
	"testing"

	"achbridge/bridge/via"
)

func TestDSCPFollowsClassAndPriority(t *testing.T) {
	for text, want := range map[string]via.DSCP{
		"": via.CS0, "priority=0": via.CS1, "priority=1": via.CS1, "priority=2": via.CS0, "priority=5": via.CS0,
		"priority=6": via.AF41, "priority=7": via.AF41, "class=command": via.CS6, "class=command,priority=0": via.CS6, "preset=command": via.CS6,
	} {
		m, err := ParseMirror("robot/imu,"+text, nil)
		if text == "" {
			m, err = ParseMirror("robot/imu", nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := m.QoS.DSCP(); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func TestSessionDSCPNeedsEqualMarks(t *testing.T) {
	for _, c := range []struct {
		marks []via.DSCP
		want  via.DSCP
	}{
		{nil, via.CS0},
		{[]via.DSCP{via.CS6}, via.CS6},
		{[]via.DSCP{via.AF41, via.AF41, via.AF41}, via.AF41},
		{[]via.DSCP{via.CS1, via.CS1}, via.CS1},
		{[]via.DSCP{via.CS6, via.AF41}, via.CS0},
		{[]via.DSCP{via.CS1, via.CS0, via.CS1}, via.CS0},
	} {
		if got := SessionDSCP(c.marks...); got != c.want {
			t.Errorf("SessionDSCP(%v) = %v, want %v", c.marks, got, c.want)
		}
	}
}
