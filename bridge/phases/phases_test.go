package phases

import "testing"

func TestMoveAllowsOnlyListedTransitions(t *testing.T) {
	steps := Transitions[string]{"waiting": {"live"}, "live": {"waiting", "closed"}}
	for _, c := range []struct {
		from, to string
		allowed  bool
	}{
		{"waiting", "live", true}, {"live", "closed", true}, {"closed", "closed", true}, {"waiting", "closed", false}, {"closed", "live", false},
	} {
		at, want := c.from, c.from
		if c.allowed {
			want = c.to
		}
		func() {
			defer func() { _ = recover() }() // Move panics with the build tag lockorder
			if got := steps.Move(&at, c.to); got != c.allowed {
				t.Errorf("Move(%s, %s) = %v, want %v", c.from, c.to, got, c.allowed)
			}
		}()
		if at != want {
			t.Errorf("after Move(%s, %s): got %s, want %s", c.from, c.to, at, want)
		}
	}
}
