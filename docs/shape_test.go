package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The documents show the output of one run; other runs have other numbers. So the tests compare
// shapes: each documented line must match a line of the output, in that order. A number matches
// any number, and … matches any text.

var (
	token  = regexp.MustCompile(`\d[\d.:]*(?: ?(?:ns|µs|ms|min|[smhd]|Hz|[kMG]?bit/s|[KMG]?iB|B)\b)?(?: \d+ (?:s|min|h)\b)?|[0-9a-f]{8,}|[▁▂▃▄▅▆▇█]+|\s*…|\s+|[A-Za-zµ_]+|.`)
	counts = regexp.MustCompile(`(?:, )?\(?\b(?:superseded|expired|lost|late|late_kept|rate_limited|refused|overflow) \d+\)?| \(\d+ late\)`)
)

// pattern returns the pattern of a line in a document.
func pattern(line string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`^\s*`)
	for _, tok := range token.FindAllString(clean(line), -1) {
		switch {
		case strings.HasSuffix(tok, "…"):
			b.WriteString(`.*`)
		case strings.TrimSpace(tok) == "":
			b.WriteString(`\s+`)
		case strings.ContainsRune("▁▂▃▄▅▆▇█", []rune(tok)[0]):
			b.WriteString(`[▁▂▃▄▅▆▇█ ]+`)
		case tok[0] >= '0' && tok[0] <= '9', len(tok) >= 8 && hex.MatchString(tok):
			b.WriteString(`\d[\d.:a-f]*(?: ?(?:ns|µs|ms|min|[smhd]|Hz|[kMG]?bit/s|[KMG]?iB|B)\b)?(?: \d+ (?:s|min|h)\b)?`)
		default:
			b.WriteString(regexp.QuoteMeta(tok))
		}
	}
	b.WriteString(`\s*$`)
	return regexp.MustCompile(b.String())
}

var (
	hex    = regexp.MustCompile(`^[0-9a-f]+$`)
	number = regexp.MustCompile(`\b[0-9a-f]{8,}\b`) // id of a network or node
)

// clean removes from a line the counts of frames that were not delivered, which depend on
// chance.
func clean(line string) string {
	line = counts.ReplaceAllString(line, "")
	return strings.TrimRight(number.ReplaceAllString(line, "0"), " -;,")
}

// missingIn returns the first documented line that the output lacks, or "".
func missingIn(got string, want []string) string {
	lines := strings.Split(got, "\n")
	for _, w := range want {
		p := pattern(w)
		i := slices.IndexFunc(lines, func(line string) bool { return p.MatchString(clean(line)) })
		if i < 0 {
			return w
		}
		lines = lines[i+1:]
	}
	return ""
}

func TestPatternsIgnoreNumbersOnly(t *testing.T) {
	for _, c := range []struct {
		want, got string
		same      bool
	}{
		{"robot.imu  robot/imu  live  3347 (1 late)  4.02 ms", "robot.imu    robot/imu   live   12    912 µs", true},
		{"network:  f5d31653", "network:  0a0a0a0a", true},
		{"robot.imu  -    superseded 51", "robot.imu  -    superseded 3, expired 1", true},
		{"robot.imu  robot/imu  live  3347", "robot.imu  robot/imu  stale  3347", false},
		{"fix: …", "fix: a longer budget", true},
		{"up 4 s", "up 2 min 3 s", true},
		{"up 4 s", "up 2 min 3 s and more", false},
		{"AGE ▂▂▂", "AGE ▁▁█ ▁", true},
	} {
		if got := missingIn("before\n"+c.got+"\nafter", []string{c.want}) == ""; got != c.same {
			t.Errorf("line %q, output %q: got match %v, want %v", c.want, c.got, got, c.same)
		}
	}
}
