package diagnose

import (
	"slices"
	"testing"
	"time"

	"achbridge/bridge/status"
	"achbridge/localach"
)

func TestCopyInKernelIsEvidence(t *testing.T) {
	for _, c := range []struct {
		copied status.KernelCopy
		want   string
	}{
		{status.KernelCopy{Written: 7, Skipped: 2}, "7 of its frames were copied into the kernel, 2 were not"},
		{status.KernelCopy{Omitted: true, Reason: "too large"}, "it is not in the kernel: too large"},
	} {
		s := Snapshot{Host: "robot", Channel: "imu", Apart: time.Second}
		s.After.Mirrors = []status.Mirror{{Host: "robot", Channel: "imu", Name: "robot.imu", State: status.MirrorLive, Kernel: &c.copied}}
		s.Before.Mirrors = s.After.Mirrors
		if list := Findings(s); !slices.Contains(list[0].Evidence, c.want) {
			t.Errorf("%+v: evidence %q, want %q", c.copied, list[0].Evidence, c.want)
		}
	}
}

func TestKernelChannelDoesNotHideItself(t *testing.T) {
	for _, c := range []struct {
		local    status.Local
		evidence string
		isHidden bool
	}{
		{status.Local{Channel: "imu", Kind: status.KindKernel}, "its frames are in the kernel", false},
		{status.Local{Channel: "imu", Kind: status.KindKernel, Missed: 3}, "its frames are in the kernel, which replaced 3 before they were read", false},
		{status.Local{Channel: "imu"}, "", true},
	} {
		for _, hz := range []uint64{0, 10} {
			s := Snapshot{Host: "robot", Channel: "imu", Self: true, Apart: time.Second}
			s.Before.Locals = []status.Local{c.local}
			c.local.Seq += hz
			s.After.Locals = []status.Local{c.local}
			s.File.Kernel = HiddenBy(localach.Device{Path: "/dev/ach-imu"}, true)
			list := s.withHidden(s.origin())
			isHidden := slices.ContainsFunc(list, func(f Finding) bool { return f.Cause == status.CauseKernelChannel })
			if hasText := slices.Contains(list[0].Evidence, c.evidence); isHidden != c.isHidden || !isHidden && !hasText {
				t.Errorf("%+v, %d Hz: findings %+v, want %q as evidence, and hidden %v", c.local, hz, list, c.evidence, c.isHidden)
			}
		}
	}
}
