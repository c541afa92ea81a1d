package testnet_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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

// A robot's wall clock may be off by years, and be stepped while it works: nothing
// may be decided by it. Go's time.Now carries a monotonic reading, by which times
// are compared and subtracted as long as nobody takes it away; these are the ways
// to do that, or to ask the wall clock.
var wallClock = regexp.MustCompile(`\.(Unix|UnixNano|UnixMilli|UnixMicro|UTC|Local)\(|\.(Round|Truncate)\(0\)|time\.(Unix|Date|Parse)\(|CLOCK_REALTIME|gettimeofday`)

// forPeople is a time that is written down at once.
var forPeople = regexp.MustCompile(`\.(UTC|Local)\(\)\.Format\(`)

// harmless matches the lines that decide nothing by it.
var harmless = regexp.MustCompile(strings.Join([]string{
	`Deadline\(time\.Unix\(1, 0\)\)`,   // a deadline that is past, whatever the time
	`NotBefore|NotAfter`,               // of certificates of our own, which are good for all times
	`now\.UTC\(\)|Now\(\)\.Round\(0\)`, // of those of others, where dates count, as the operator has wished
	`time\.RFC3339`,                    // of the same, in a list
	`time\.(Parse|Date)\(`,             // what an operator has given
	`now\.Sub\(n\.start\)`,             // how far the wall clock was stepped, and no more
	`time\.Unix\(0, |r\.begun`,         // when a frame was recorded
	`cookieLife`,                       // a step in the middle of a handshake costs that handshake
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

// checkClock fails the test for every line of a file that asks for the wall clock.
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
