package ui

import "testing"

func TestLongLinesAreWrappedAtTerminalWidth(t *testing.T) {
	got := broken("the link from krang carries less than it needs", 0, 4, 26)
	if want := "the link from krang\n    carries less than it\n    needs"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := broken("its budget is 100 ms, and no more", 0, 2, 22); got != "its budget is\n  100 ms, and no more" {
		t.Errorf("a line break separates a number from its unit:\n%s", got)
	}
	got = broken("\x1b[31mloss:\x1b[0m the way from krang löst 3 %", -2, 2, 26)
	if want := "\x1b[31mloss:\x1b[0m the way from krang\n  löst 3 %"; got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}
