package testnet_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// yearsApart is the difference of the monotonic clocks of two hosts, as if one had
// been up for three years.
const yearsApart = "100000000" // seconds

// runOld starts a daemon as on a host that has been up for years, if the kernel has time namespaces (Linux 5.6).
func (s *site) runOld(host string, args ...string) *process {
	s.t.Helper()
	if _, err := os.Stat("/proc/self/ns/time"); err != nil {
		s.t.Logf("%s has been up for as long as the others: %v", host, err)
		return s.run(host, args...)
	}
	wrapper := []string{"unshare", "--time", "--fork", "--kill-child", "--monotonic", yearsApart, "--boottime", yearsApart}
	return s.startUnder(host, wrapper, "achbridge", append([]string{"run"}, args...)...)
}

// wallClock matches code that reads the wall clock or removes the monotonic reading
// from a time. A robot's wall clock may be off by years, and be stepped while it works,
// so no decision may depend on it. Times from time.Now are compared and subtracted by
// their monotonic reading.
var wallClock = regexp.MustCompile(`\.(Unix|UnixNano|UnixMilli|UnixMicro|UTC|Local)\(|\.(Round|Truncate)\(0\)|time\.(Unix|Date|Parse)\(|CLOCK_REALTIME|gettimeofday`)

// forPeople matches code that only formats a time.
var forPeople = regexp.MustCompile(`\.(UTC|Local)\(\)\.Format\(`)

// harmless matches lines that make no decision by the wall clock.
var harmless = regexp.MustCompile(strings.Join([]string{
	`Deadline\(time\.Unix\(1, 0\)\)`,                         // a deadline in the past
	`NotBefore|NotAfter`,                                     // dates of our own certificates, which are always valid
	`now\.UTC\(\)|Now\(\)\.Round\(0\)`,                       // dates of certificates of an authority, which the operator has chosen
	`time\.RFC3339`,                                          // the same dates in a list
	`time\.(Parse|Date)\(`,                                   // dates from an operator
	`now\.Sub\(c\.start\)`,                                   // only measures how far the wall clock was stepped
	`time\.Unix\(0, |r\.begun|recordedAt|r\.(Log|Publish)\.`, // the time of a recorded frame
	`f\.clock\(\)\.UnixNano\(\)|s\.(Until|From)\.UTC\(\)`,    // the times of the frames and of the ends of a snapshot
	`e\.Time\.Unix\(\)|at\.UnixNano\(\)`,                     // the times of messages for viewers
	`born := time\.Unix|StartedAt: time\.Now`,                // after a step of the clock, a kernel channel of ours stays
	`at\.Timestamp\.UnixNano\(\)`,                            // the hub's clock, of which only differences count
	`cookieLife`,                                             // a step of the clock during a handshake may fail that handshake
}, "|"))

func TestCodeDoesNotDecideByWallClock(t *testing.T) {
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

// checkClock fails the test for each line of a file that reads the wall clock.
func checkClock(t *testing.T, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		code, _, _ := strings.Cut(line, "//")
		if wallClock.MatchString(forPeople.ReplaceAllString(code, "")) && !harmless.MatchString(line) {
			t.Errorf("%s:%d: %s: got the wall clock, want a difference of time.Now, or an entry in harmless", path, number, strings.TrimSpace(line))
		}
	}
	return nil
}
