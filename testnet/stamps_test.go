package testnet_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"achbridge/bridge/status"
	"achbridge/localach"
	"achbridge/testnet/await"
	"achbridge/testnet/need"
)

// tenDaysApart is the difference of the monotonic clocks of two hosts.
const tenDaysApart = 864_000 * time.Second

// runTenDaysOld starts a daemon as on a host that has been up ten days longer than the others.
func (s *site) runTenDaysOld(host string, args ...string) *process {
	s.t.Helper()
	const apart = "864000"
	if out, err := exec.Command("unshare", "--time", "--monotonic", apart, "--boottime", apart, "true").CombinedOutput(); err != nil {
		s.t.Skipf("no time namespace: %v: %s", err, out)
	}
	wrapper := []string{"unshare", "--time", "--fork", "--kill-child", "--monotonic", apart, "--boottime", apart}
	return s.startUnder(host, wrapper, "achbridge", append([]string{"run"}, args...)...)
}

// stampedFrame returns a frame as programs of a preset make it. Those with the preset fields have the header of sns.
func stampedFrame(preset string, at, valid time.Duration) []byte {
	sec, nsec := uint64(at/time.Second), uint64(at%time.Second)
	switch preset {
	case "sns", "fields":
		b := make([]byte, 56)
		binary.LittleEndian.PutUint64(b, sec)
		binary.LittleEndian.PutUint64(b[8:], uint64(valid))
		binary.LittleEndian.PutUint32(b[16:], uint32(nsec))
		return b
	case "hubo":
		b := make([]byte, 3898)
		binary.LittleEndian.PutUint64(b[3888:], math.Float64bits(at.Seconds()))
		return b
	}
	timespec := func(tag byte, t time.Duration) []byte {
		b := binary.AppendUvarint([]byte{8}, uint64(t/time.Second))
		b = binary.AppendUvarint(append(b, 16), uint64(t%time.Second))
		return append([]byte{tag, byte(len(b))}, b...)
	}
	meta := append(timespec(0x12, at), timespec(0x1a, at+valid)...)
	return append([]byte{8, 7, 0x7a, byte(len(meta))}, meta...)
}

// stampOf returns the time in a frame, and when the frame expires by the rules of its programs; 0 for hubo.
func stampOf(t *testing.T, preset string, b []byte) (at, until time.Duration) {
	t.Helper()
	switch preset {
	case "sns", "fields":
		at = time.Duration(binary.LittleEndian.Uint64(b))*time.Second + time.Duration(binary.LittleEndian.Uint32(b[16:]))
		return at, at + time.Duration(binary.LittleEndian.Uint64(b[8:]))
	case "hubo":
		return time.Duration(math.Float64frombits(binary.LittleEndian.Uint64(b[3888:])) * 1e9), 0
	}
	timespec := func(b []byte) (time.Duration, int) {
		sec, n := binary.Uvarint(b[3:])
		nsec, k := binary.Uvarint(b[4+n:])
		if int(b[1]) != 2+n+k {
			t.Fatalf("a timespec of %d bytes has the length %d: %x", 2+n+k, b[1], b)
		}
		return time.Duration(sec)*time.Second + time.Duration(nsec), 4 + n + k
	}
	at, n := timespec(b[4:])
	until, k := timespec(b[4+n:])
	if len(b) != 4+n+k || int(b[3]) != n+k {
		t.Fatalf("the lengths do not add up: %x", b)
	}
	return at, until
}

// The robot has been up ten days longer than the PC and the base. Sensor frames go to the PC, some of them by the base, and
// commands to the robot.
func TestStampsAreShiftedToClockOfReader(t *testing.T) {
	need.Long(t)
	s := newSite(t, "robot", "pc", "base")
	const valid = 500 * time.Millisecond
	file := t.TempDir() + "/robot.yaml"
	accept := "accept:\n"
	for _, preset := range []string{"sns", "somatic"} {
		rule := map[string]string{"sns": "", "somatic": ", stamps: somatic"}[preset] // the push of sns requests the option
		accept += fmt.Sprintf("  - {match: %s-goal, class: command, budget: 2s%s}\n", preset, rule)
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(file, accept+"types:\n  fields: header.yaml\n")
	write(filepath.Dir(file)+"/header.yaml", `name: header
size: 56
fields:
  - {name: sec, offset: 0, type: int64}
  - {name: valid, offset: 8, type: int64}
  - {name: nsec, offset: 16, type: uint32}
`)
	s.runTenDaysOld("robot", "--config", file).awaitLog("msg=\"daemon started\"")
	var mirrors []string
	for _, preset := range []string{"sns", "somatic", "hubo"} {
		mirrors = append(mirrors, "--mirror", "robot/"+preset+",as="+preset+",stamps="+preset)
	}
	mirrors = append(mirrors, "--mirror", "robot/fields,as=fields,stamps=time:sec+nsec;duration:valid", "--mirror", "robot/plain,as=plain")
	mirrors = append(mirrors, "--mirror", "base/robot.passed,as=passed,stamps=sns")
	s.run("base", "--mirror", "robot/passed", "--relay", "*").awaitLog("msg=\"daemon started\"")
	s.run("pc", mirrors...).awaitLog("msg=\"daemon started\"")
	s.must("pc", "push", "sns-goal", "robot", "--stamps", "sns")
	s.must("pc", "push", "somatic-goal", "robot")
	put := func(host, channel string, make func() []byte) func() {
		ch, err := s.shmDir(host).Create(channel, localach.CreateConfig{Geometry: localach.Geometry{FrameCount: 8, FrameSize: 4096}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ch.Close() })
		return func() {
			t.Helper()
			w := ch.Writer()
			defer w.Close()
			if _, err := w.Put(make()); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(host, channel, preset string, uptime time.Duration, put func()) {
		t.Helper()
		buf := make([]byte, 4096)
		await.NoError(t, func() error {
			put()
			before := time.Duration(monotonic()) + uptime
			time.Sleep(20 * time.Millisecond)
			ch, err := s.shmDir(host).Open(channel)
			if err != nil {
				return err
			}
			defer ch.Close()
			n, err := ch.Reader().TryNext(buf)
			if err != nil {
				return err
			}
			at, until := stampOf(t, preset, buf[:n])
			if age := before - at; age < -20*time.Millisecond || age > 200*time.Millisecond {
				return fmt.Errorf("%s on %s: the stamp is %v before its put", channel, host, age)
			}
			if now := time.Duration(monotonic()) + uptime; preset != "hubo" && (now > until || until > before+valid) {
				return fmt.Errorf("%s on %s: expires in %v, want %v at most", channel, host, until-now, valid)
			}
			return nil
		})
	}
	for _, preset := range []string{"sns", "somatic", "hubo", "fields"} {
		check("pc", preset, preset, 0, put("robot", preset, func() []byte { return stampedFrame(preset, time.Duration(monotonic())+tenDaysApart, valid) }))
	}
	check("pc", "passed", "sns", 0, put("robot", "passed", func() []byte { return stampedFrame("sns", time.Duration(monotonic())+tenDaysApart, valid) }))
	for _, preset := range []string{"sns", "somatic"} {
		check("robot", preset+"-goal", preset, tenDaysApart, put("pc", preset+"-goal", func() []byte { return stampedFrame(preset, time.Duration(monotonic()), valid) }))
	}
	plain := stampedFrame("sns", tenDaysApart, valid)
	putPlain := put("robot", "plain", func() []byte { return plain })
	buf := make([]byte, 4096)
	await.NoError(t, func() error {
		putPlain()
		ch, err := s.shmDir("pc").Open("plain")
		if err != nil {
			return err
		}
		defer ch.Close()
		if n, err := ch.Reader().TryNext(buf); err != nil || string(buf[:n]) != string(plain) {
			return fmt.Errorf("plain: got %x, %v, want the origin's bytes", buf[:n], err)
		}
		return nil
	})
	for _, m := range s.status("pc").Mirrors {
		if m.Name != "plain" && (m.Stamps == nil || math.Abs(m.Stamps.OffsetS+tenDaysApart.Seconds()) > 0.05 || m.State != status.MirrorLive) {
			t.Errorf("%s: %s, stamps %+v, want an offset of ten days", m.Name, m.State, m.Stamps)
		}
	}
}
