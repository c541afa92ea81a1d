package discovery

import (
	"errors"
	"testing"
)

func TestTroubleIsToldWhenItBeginsOrChanges(t *testing.T) {
	var l trouble
	down, denied := errors.New("network is down"), errors.New("permission denied")
	for i, c := range []struct {
		err  error
		want bool
	}{{nil, false}, {down, true}, {down, false}, {denied, true}, {nil, false}, {denied, true}} {
		if got := l.begins(c.err); got != c.want {
			t.Errorf("step %d, %v: got %v, want %v", i+1, c.err, got, c.want)
		}
	}
}
