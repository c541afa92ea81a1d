package ui

import "testing"

func TestLongLinesAreWrappedWhereTheTerminalEnds(t *testing.T) {
	got := indented(4, 26, "the link from krang carries less than it needs")
	if want := "the link from krang\n    carries less than it\n    needs"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
