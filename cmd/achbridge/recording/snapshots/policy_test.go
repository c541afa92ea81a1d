package snapshots

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const second = int64(time.Second)

func TestTriggerFiresOnRisingEdge(t *testing.T) {
	for _, c := range []struct {
		name   string
		hold   time.Duration
		levels string // one value each second: 1 means that the condition holds
		want   string // 1 where it fires
	}{
		{"rises", 0, "0011", "0010"},
		{"holds from the beginning", 0, "1101", "0001"},
		{"rises again", 0, "010101", "010101"},
		{"rises within hold", 3 * time.Second, "01010101", "01000100"},
		{"rises within hold and stays", 3 * time.Second, "0101111111", "0100000000"},
		{"rises just after hold", 3 * time.Second, "010010", "010010"},
		{"never", 0, "0000", "0000"},
	} {
		trigger := Trigger{Hold: c.hold}
		var got strings.Builder
		for i, l := range c.levels {
			fired := trigger.Condition(l == '1', int64(i)*second)
			got.WriteString(map[bool]string{true: "1", false: "0"}[fired])
		}
		if got.String() != c.want {
			t.Errorf("%s: %s fires at %s, want %s", c.name, c.levels, got.String(), c.want)
		}
	}
}

func TestTriggerEventHold(t *testing.T) {
	trigger := Trigger{Hold: 5 * time.Second}
	for at, want := range []bool{true, false, false, false, false, true, false} {
		if got := trigger.Event(int64(at) * second); got != want {
			t.Errorf("Event at %d s = %v, want %v", at, got, want)
		}
	}
}

// Each case is a list of triggers; "end" is the end of the running snapshot, at its time or as a full disk ends it.
func TestSpansCoverNoFrameTwice(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps string // seconds of triggers; -N ends the snapshot at N
		want  string // spans in seconds
	}{
		{"one", "100 -110", "40..110"},
		{"at the start", "5 -15", "0..15"},
		{"overlap extends", "100 105 -115", "40..115"},
		{"an earlier end does not shorten", "100 105 104 -115", "40..115"},
		{"limit of the length", "100 110 120 130 140 150 -160 165 -175", "40..160 160..175"},
		{"still running at full length", "100 120 140 159 160 -170", "40..160 160..170"},
		{"next begins where the last ended", "100 -110 130 -140", "40..110 110..140"},
		{"far apart", "100 -110 300 -310", "40..110 240..310"},
		{"disk full", "100 -103 104 -114", "40..103 103..114"},
	} {
		s := Spans{Before: 60 * time.Second, After: 10 * time.Second, Longest: 2 * time.Minute}
		var got []string
		for _, word := range strings.Fields(c.steps) {
			var at int64
			fmt.Sscan(word, &at)
			if at >= 0 {
				begins := s.Fire(at * second)
				if begins {
					got = append(got, "")
				}
			} else {
				s.End(-at * second)
			}
			from, until := s.Span()
			got[len(got)-1] = fmt.Sprintf("%d..%d", from/second, until/second)
			if s.IsRunning() != (at >= 0) {
				t.Errorf("%s: running is %v after %d", c.name, s.IsRunning(), at)
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: spans are %s, want %s", c.name, text, c.want)
		}
	}
}

func TestExcessRemovesOldestFirst(t *testing.T) {
	files := []File{{"b", 20}, {"c", 30}, {"a", 10}}
	for _, c := range []struct {
		more, quota int64
		want        string
		ok          bool
	}{
		{0, 60, "", true}, {1, 60, "a", true}, {11, 60, "ab", true}, {30, 60, "ab", true}, {31, 60, "abc", true}, {61, 60, "abc", false},
	} {
		remove, ok := Excess(files, c.more, c.quota)
		got := ""
		for _, f := range remove {
			got += f.Name
		}
		if got != c.want || ok != c.ok {
			t.Errorf("%d more bytes in %d: removes %q, %v, want %q, %v", c.more, c.quota, got, ok, c.want, c.ok)
		}
	}
}
