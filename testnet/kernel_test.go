package testnet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

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

func TestKernelSurvivesKilledDaemons(t *testing.T) {
	m := kernelmodule.Loaded(t)
	s := newSite(t, "robot") // waits for other tests, which use the same channel
	if err := m.Create("imu", 8, 64); err != nil {
		t.Fatal(err)
	}
	for i := range need.LongOr(100, 5) {
		robot := s.run("robot", "--kernel", "--no-discovery")
		await.True(t, "the daemon reads the channel", func() bool { return m.Descriptors() == 2 })
		if err := m.Put("imu", fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
		robot.kill()
		await.True(t, "no descriptor open", func() bool { return m.Descriptors() == 0 })
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
