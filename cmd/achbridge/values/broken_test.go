package values

import (
	"strings"
	"testing"
)

func TestLongValuesBreakAfterCommas(t *testing.T) {
	numbers := "[" + strings.Repeat("[0.25, 1.5], ", 4) + "7] rad"
	for _, c := range []struct {
		text            string
		indent, columns int
		want            string
	}{
		{numbers, 6, 40, "[[0.25, 1.5], [0.25, 1.5], [0.25,|      1.5], [0.25, 1.5], 7] rad"},
		{numbers, 6, 200, numbers},
		{numbers, 6, 0, numbers},
		{numbers, 30, 40, numbers}, // the terminal is too narrow for broken lines
		{`"a, text, of, a, frame, that, is, long"`, 6, 40, `"a, text, of, a, frame, that, is, long"`},
		{strings.Repeat("0", 50), 6, 40, strings.Repeat("0", 50)},
	} {
		if got := strings.ReplaceAll(broken(c.text, c.indent, c.columns), "\n", "|"); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
