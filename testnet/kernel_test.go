package testnet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/testnet/await"
	"achbridge/testnet/kernelmodule"
	"achbridge/testnet/need"
)

// kernelSite is a robot whose channel imu is in the kernel, and a PC that mirrors it.
type kernelSite struct {
	*site
	m     *kernelmodule.Module
	robot *process
	count int // frames that were put
}

func newKernelSite(t *testing.T) *kernelSite {
	m := kernelmodule.Loaded(t)
	s := &kernelSite{site: newSite(t, "robot", "pc"), m: m} // newSite waits for other tests, which use the same channel
	s.do(m.Create("imu", 8, 64))
	s.robot = s.run("robot", "--kernel")
	s.run("pc", "--mirror", "robot/*")
	return s
}

func (s *kernelSite) do(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// follow puts some frames, and waits until the mirror has the last one.
func (s *kernelSite) follow() {
	s.t.Helper()
	var frame string
	for range 20 {
		s.count++
		frame = fmt.Sprintf("frame %d", s.count)
		s.do(s.m.Put("imu", []byte(frame)))
		time.Sleep(5 * time.Millisecond)
	}
	s.awaitFrame(frame)
}

// awaitFrame waits until the newest frame of the mirror is the given one.
func (s *kernelSite) awaitFrame(want string) {
	s.t.Helper()
	buf := make([]byte, 64)
	await.NoError(s.t, func() error {
		ch, err := s.shmDir("pc").Open("robot.imu")
		if err != nil {
			return err
		}
		defer ch.Close()
		if n, err := ch.Reader().Last(buf); err != nil || string(buf[:n]) != want {
			return fmt.Errorf("newest frame of robot.imu: %q, %v, want %q", buf[:n], err, want)
		}
		return nil
	})
}

// awaitKind waits until ls on the PC shows the kind of robot/imu.
func (s *kernelSite) awaitKind(want string) {
	s.t.Helper()
	await.NoError(s.t, func() error {
		if list, _ := s.ls("pc", "robot/imu"); len(list) != 1 || list[0].Kind != want {
			return fmt.Errorf("ls robot/imu = %+v, want the kind %q", list, want)
		}
		return nil
	})
}

func TestKernelChannelIsMirrored(t *testing.T) {
	s := newKernelSite(t)
	s.follow()
	s.awaitKind("kernel")
	if why, _, _ := s.achbridge("robot", "why", "imu"); !strings.Contains(why, "its frames are in the kernel") || strings.Contains(why, "instead") {
		t.Errorf("why imu says %q, want that its frames are in the kernel", why)
	}

	faults := s.m.Faults()
	for range need.LongOr(30, 1) {
		s.do(s.m.Unlink("imu"))
		time.Sleep(100 * time.Millisecond)
		s.do(s.m.Create("imu", 8, 64))
		s.follow()
	}
	if got := s.m.Faults() - faults; got != 0 {
		t.Errorf("%d descriptors closed too late, want 0", got)
	}

	s.must("robot", "channel", "create", "imu", "--frames", "8", "--size", "64")
	s.follow()
	s.awaitKind("kernel") // as libach opens it
	s.do(s.m.Unlink("imu"))
	s.awaitKind("")
	s.shell("robot", `printf shared | "$0" channel put imu`, s.bin+"/achbridge")
	s.awaitFrame("shared")
	await.True(t, "all descriptors closed", func() bool { return s.m.Descriptors() == 0 })
}

// awaitKernel waits until the newest frame of a kernel channel is the given one.
func awaitKernel(t *testing.T, m *kernelmodule.Module, name, want string) {
	t.Helper()
	await.NoError(t, func() error {
		if frame, err := m.Newest(name); err != nil || string(frame) != want {
			return fmt.Errorf("newest frame of /dev/ach-%s: %q, %v, want %q", name, frame, err, want)
		}
		return nil
	})
}

// goalSite is a PC with a channel goal, which the robot mirrors in the kernel.
type goalSite struct {
	*site
	m     *kernelmodule.Module
	w     *localach.Writer
	robot *process
	count int // frames that were put
}

func newGoalSite(t *testing.T) *goalSite {
	m := kernelmodule.Loaded(t)
	s := &goalSite{site: newSite(t, "robot", "pc"), m: m} // newSite waits for other tests, which use the same module
	ch, err := s.shmDir("pc").Create("goal", localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 8, FrameSize: 64}})
	if err != nil {
		t.Fatal(err)
	}
	s.w = ch.Writer()
	t.Cleanup(func() { s.w.Close(); ch.Close(); _ = m.Unlink("pc.goal") })
	s.run("pc")
	s.robot = s.runRobot()
	return s
}

func (s *goalSite) runRobot() *process {
	return s.run("robot", "--kernel=mirror", "--mirror", "pc/goal")
}

// follow puts a frame, and waits until the kernel has it.
func (s *goalSite) follow() {
	s.t.Helper()
	s.count++
	frame := fmt.Sprintf("goal %d", s.count)
	if _, err := s.w.Put([]byte(frame)); err != nil {
		s.t.Fatal(err)
	}
	awaitKernel(s.t, s.m, "pc.goal", frame)
}

// awaitMirror waits until the robot's status shows a state of the mirror, with a reason that contains a text.
func (s *goalSite) awaitMirror(state status.MirrorState, reason string) {
	s.t.Helper()
	await.NoError(s.t, func() error {
		if list := s.status("robot").Mirrors; len(list) != 1 || list[0].State != state || !strings.Contains(list[0].Reason, reason) {
			return fmt.Errorf("mirrors %+v, want one that is %s with the reason %q", list, state, reason)
		}
		return nil
	})
}

func TestKernelMirrorFollows(t *testing.T) {
	s := newGoalSite(t)
	for range 5 {
		s.follow()
	}
	s.awaitMirror(status.MirrorLive, "")
	if list := s.must("robot", "channel", "ls"); !strings.Contains(list, "/dev/ach-pc.goal, which gets the same frames") {
		t.Errorf("channel ls says %q, want the kernel channel", list)
	}
	if list, _ := s.ls("pc", "robot/*"); len(list) > 0 {
		t.Errorf("the robot exports %+v, want nothing: the kernel channel is a mirror", list)
	}

	faults := s.m.Faults()
	if err := s.m.Unlink("pc.goal"); err != nil {
		t.Fatal(err)
	}
	s.awaitMirror(status.MirrorRefused, "not in the kernel")
	await.True(t, "all descriptors closed", func() bool { return s.m.Descriptors() == 0 })
	if err := s.m.Create("pc.goal", 4, 64); err != nil {
		t.Fatal(err)
	}
	s.robot.checkAlive()
	s.robot.kill()
	s.robot = s.runRobot()
	s.awaitMirror(status.MirrorRefused, "another program made this kernel channel")
	s.must("robot", "unmirror", "pc/goal", "--rm")
	if _, err := s.m.LastSeq("pc.goal"); err != nil {
		t.Errorf("the channel of another program is gone: %v", err)
	}
	if got := s.m.Faults() - faults; got != 0 {
		t.Errorf("%d faults, want 0", got)
	}
}

func TestKernelSurvivesKilledDaemons(t *testing.T) {
	s := newGoalSite(t)
	if err := s.m.Create("imu", 8, 64); err != nil {
		t.Fatal(err)
	}
	for i := range need.LongOr(100, 5) {
		s.follow()
		await.True(t, "the daemon reads one channel and writes one", func() bool { return s.m.Descriptors() == 3 })
		if err := s.m.Put("imu", fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
		s.robot.kill()
		await.True(t, "no descriptor open", func() bool { return s.m.Descriptors() == 0 })
		s.robot = s.runRobot()
	}
	s.follow()
	if seq, err := s.m.LastSeq("pc.goal"); err != nil || seq != uint64(s.count) {
		t.Errorf("%d frames in the kernel, %v, want %d: each once", seq, err, s.count)
	}
}

func TestKernelChannelIsNotReadByDefault(t *testing.T) {
	m := kernelmodule.Loaded(t)
	s := newSite(t, "robot")
	if err := m.Create("imu", 8, 64); err != nil {
		t.Fatal(err)
	}
	s.run("robot", "--no-discovery")
	s.publish("robot", "joints:10:64")
	await.True(t, "status lists joints", func() bool {
		out, _, _ := s.achbridge("robot", "status", "--json")
		return strings.Contains(out, `"joints"`)
	})
	if got := m.Descriptors(); got != 0 {
		t.Errorf("%d descriptors of kernel channels are open, want 0", got)
	}
}
