package main

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/top"
	"achbridge/cmd/achbridge/ui"
)

// everyMirror returns a mirror for each combination of state, late or not, and overdue or not.
func everyMirror() (list []status.Mirror) {
	period, due := 10.0, 900.0
	for _, state := range []status.MirrorState{status.MirrorWaiting, status.MirrorLive, status.MirrorStale, status.MirrorForeignWriter, status.MirrorRefused} {
		for _, late := range []float64{0, 5} {
			for _, age := range []float64{12, 910} {
				m := status.Mirror{Name: "m" + string(rune('a'+len(list))), Host: "krang", Channel: "c", State: state, LateS: late, AgeMs: &age, PeriodMs: &period}
				if age > 100 {
					m.DueMs = &due
				}
				list = append(list, m)
			}
		}
	}
	return list
}

// healthWord fails the test if word is not in status.Healths.
func healthWord(t *testing.T, where, word string) {
	t.Helper()
	if !slices.Contains(status.Healths, status.Health(word)) {
		t.Errorf("%s: got health %q, want one of %v", where, word, status.Healths)
	}
}

func TestAllToolsUseHealthNames(t *testing.T) {
	a, listed := &app{ui: &ui.Terminal{}}, map[status.Health]bool{}
	for _, m := range everyMirror() {
		listed[m.Health()] = true
		healthWord(t, "status", a.mirrorRows([]status.Mirror{m})[0][2])
		shown, _ := top.Shown(api.StatusReply{Report: status.Report{Mirrors: []status.Mirror{m}}}, m.Name)
		healthWord(t, "top", shown)
		var keys struct{ State, Health string }
		text, err := json.Marshal(m)
		if err == nil {
			err = json.Unmarshal(text, &keys)
		}
		if err != nil || keys.State != m.State.String() {
			t.Errorf("state in JSON: got %q, %v, want %q", keys.State, err, m.State)
		}
		healthWord(t, "JSON", keys.Health)
		text, _ = json.Marshal(api.WhyReport{Health: m.Health()})
		if !strings.Contains(string(text), `"health":"`+m.Health().String()+`"`) {
			t.Errorf("why: got %s, want health %s", text, m.Health())
		}
	}
	if len(listed) != len(status.Healths) {
		t.Errorf("health values of all mirrors: got %v, want each of %v", listed, status.Healths)
	}
}

// The page lists the health values of the program in the same order. The documents explain each value.
func TestHealthNamesMatchPageAndDocs(t *testing.T) {
	want := []string{}
	for _, h := range status.Healths {
		want = append(want, h.String())
	}
	page, err := os.ReadFile("page/model.js")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`healths = \[(.*)\]`).FindSubmatch(page)
	if got := strings.Split(strings.ReplaceAll(string(list[1]), `"`, ""), ", "); !slices.Equal(got, want) {
		t.Errorf("page: got %q, want %q", got, want)
	}
	doc, err := os.ReadFile("../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(doc), "### Health of a mirror\n")
	section, _, _ := strings.Cut(after, "\n\nThe key")
	var got []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(.*?)` \\| (.+)\\. \\|$").FindAllStringSubmatch(section, -1) {
		healthWord(t, "docs", row[1])
		got = append(got, row[1])
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("docs: got explanations of %q, want of %q", got, want)
	}
}
