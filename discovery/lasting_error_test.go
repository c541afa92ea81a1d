package discovery

import (
	"errors"
	"testing"
)

func TestLastingErrorIsNewWhenItBeginsOrChanges(t *testing.T) {
	var l lastingError
	down, denied := errors.New("network is down"), errors.New("permission denied")
	for i, c := range []struct {
		err  error
		want bool
	}{{nil, false}, {down, true}, {down, false}, {denied, true}, {nil, false}, {denied, true}} {
		if got := l.isNew(c.err); got != c.want {
			t.Errorf("step %d, %v: got %v, want %v", i+1, c.err, got, c.want)
		}
	}
}
