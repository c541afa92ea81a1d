package testnet_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"achbridge/testnet/need"
)

// yearsApart is by how much the monotonic clocks of two hosts differ: one has been
// up for three years, say.
const yearsApart = "100000000" // s

// runOld is run for a host that has been up for years, where the kernel has time namespaces (Linux 5.6).
func (s *site) runOld(host string, args ...string) *process {
	s.t.Helper()
	if _, err := os.Stat("/proc/self/ns/time"); err != nil {
		s.t.Logf("%s has been up for as long as the others: %v", host, err)
		return s.run(host, args...)
	}
	wrapper := []string{"unshare", "--time", "--fork", "--kill-child", "--monotonic", yearsApart, "--boottime", yearsApart}
	return s.startUnder(host, wrapper, "achbridge", append([]string{"run"}, args...)...)
}

func TestMirrorsFollowBetweenHostsWhoseClocksAreYearsApart(t *testing.T) {
	need.Long(t)
	t.Parallel()
	for name, oldest := range map[string]string{"origin": "robot", "mirror": "pc"} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, "robot", "pc")
			s.publish("robot", imu, joints)
			s.publish("pc", "goal:20:64")
			run := func(host string, args ...string) {
				if host == oldest {
					s.runOld(host, args...)
				} else {
					s.run(host, args...)
				}
			}
			run("robot", "--mirror", "pc/goal,as=goal,class=command")
			run("pc", "--mirror", "robot/*")
			readers := s.observe("pc", keeping, reopening, parts)
			goals := s.observe("robot", "keep:goal")
			begin := now()
			readers.follows(begin, met, keeping, reopening, parts)
			goals.follows(begin, met, "keep:goal") // which needs a clock that is known
			s.link("robot", "cut")
			s.link("robot", "up")
			t.Logf("clocks %s s apart: followed again after %v", yearsApart, readers.follows(now(), resumed, keeping, reopening, parts))
			if goals.last("keep:goal").Err != "" {
				t.Errorf("goal: got %q", goals.last("keep:goal").Err)
			}
		})
	}
}

// A robot's wall clock may be off by years, and be stepped while it works: nothing
// may be decided by it. Go's time.Now carries a monotonic reading, by which times
// are compared and subtracted as long as nobody takes it away; these are the ways
// to do that, or to ask the wall clock.
var wallClock = regexp.MustCompile(`\.(Unix|UnixNano|UnixMilli|UnixMicro|UTC|Local)\(|\.(Round|Truncate)\(0\)|time\.(Unix|Date|Parse)\(|CLOCK_REALTIME|gettimeofday`)

// forPeople is a time that is written down at once.
var forPeople = regexp.MustCompile(`\.(UTC|Local)\(\)\.Format\(`)

// harmless are the lines that decide nothing by it, by their file and a part of
// the line.
var harmless = [][2]string{
	{"", "Deadline(time.Unix(1, 0))"},          // a deadline that is past, whatever the time
	{"trust/shared_anchor.go", "NotBefore"},    // of certificates, which are good
	{"trust/shared_anchor.go", "NotAfter"},     // for all times
	{"hub/certificate.go", "NotBefore"},        // the same of the hub's,
	{"hub/certificate.go", "NotAfter"},         // which hosts know by its hash
	{"trust/host_anchor.go", "now.UTC()"},      // where dates count, as the operator has wished,
	{"trust/host_anchor.go", "Round(0)"},       // and those of our own are looked at by the peer's clock
	{"achbridge/ca_dir.go", "time.RFC3339"},    // the same
	{"achbridge/man.go", "time.Parse"},         // of the day that manual pages bear
	{"achbridge/events.go", "time.Parse"},      // of the time of day that --since is given,
	{"achbridge/events.go", "time.Date"},       // and of when that was last
	{"bridge/clocks.go", "now.Sub(n.start)"},   // which tells that it was stepped, and no more
	{"recording/reader.go", "time.Unix(0, "},   // when a frame was recorded,
	{"recording/recorder.go", "r.begun"},       // by the wall clock of the beginning, and the monotonic one from then on
	{"transport/sctp_packet.go", "cookieLife"}, // a clock that is stepped in the middle of a handshake costs that handshake
}

func TestNothingIsDecidedByTheWallClock(t *testing.T) {
	for _, dir := range []string{"../bridge", "../cmd", "../discovery", "../localach", "../wire"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && d.Name() == "testdata":
				return filepath.SkipDir
			case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"), strings.HasSuffix(path, ".c"):
				return checkClock(t, path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// checkClock fails the test for every line of a file that asks for the wall clock.
func checkClock(t *testing.T, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		excused := slices.ContainsFunc(harmless, func(h [2]string) bool {
			return strings.HasSuffix(path, h[0]) && strings.Contains(line, h[1])
		})
		code, _, _ := strings.Cut(line, "//")
		if wallClock.MatchString(forPeople.ReplaceAllString(code, "")) && !excused {
			t.Errorf("%s:%d: %s: got the wall clock, want a difference of time.Now, or an entry in harmless", path, number, strings.TrimSpace(line))
		}
	}
	return nil
}
