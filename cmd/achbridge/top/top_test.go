package top

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/diagnose"
)

var updateTop = flag.Bool("update-top", false, "rewrite the golden pages of top; then check them")

// topDay is the time of the first sample in the tests of top.
var topDay = time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)

// topStatusAt returns the status, at a given second, of a PC that mirrors n channels of a robot.
// Of each ten mirrors, one is over its budget, one waits and one is refused.
func topStatusAt(n, second int) statusMsg {
	path, at, period := 20.0, float64(second), 1000.0/202
	s := status.Report{
		Host: "planner", UptimeS: 100 + at,
		Links: []status.Link{{
			Peer: "krang", Transport: "quic", Addr: "10.0.0.1:8076", State: "up", UpS: 99 + at, RTTms: 2.1, PathMbit: &path, ClockUncertaintyMs: 0.5,
			Inbound: &status.InboundPath{PathMbit: &path, Sent: 1000, Lost: 10},
		}},
		Exports: []status.Subscription{{Channel: "goal", Peer: "krang", Seq: 7, Bytes: 16, FrameCounters: ledger.FrameCounters{Offered: 7, Delivered: 7}}},
	}
	for i := range n {
		now := 5 + float64(i%10) + float64((second+i)%5)
		m := status.Mirror{
			Host: "krang", Channel: fmt.Sprintf("joint-%03d", i), Name: fmt.Sprintf("krang.joint-%03d", i), State: "live",
			QoS: rule.QoS{Budget: 50 * time.Millisecond}, AgeMs: &now, PeriodMs: &period, Seq: uint64(1000 + 200*second), Bytes: 64,
			FrameCounters: ledger.FrameCounters{Offered: uint64(1000 + 202*second), Delivered: uint64(1000 + 200*second), Superseded: uint64(second), Lost: uint64(second)},
		}
		mean := 2 + float64(i%10)/2
		if i%10 == 9 {
			mean = 60
		}
		window := &status.AgeFigures{MeanMs: mean, P50Ms: mean, P99Ms: mean + 5, PeakMs: mean + 6, WindowS: 10}
		total := *window
		total.MeanMs, total.WindowS = agesUpTo(second, mean)/(1+at), 1+at
		m.Age = &status.Age{UncertaintyMs: 0.5, Window: window, Total: &total}
		switch i % 10 {
		case 7:
			m.State, m.Reason, m.AgeMs, m.Age = "waiting", "krang does not offer it", nil, nil
		case 8:
			m.State, m.Reason = "refused", "krang refuses: a rule denies it"
		}
		s.Mirrors = append(s.Mirrors, m)
	}
	return statusMsg{api.StatusReply{DaemonInfo: api.DaemonInfo{PID: 7}, Report: s}, nil, topDay.Add(time.Duration(second) * time.Second)}
}

// agesUpTo returns the sum of ages that oscillate about a mean, one for each second.
func agesUpTo(second int, mean float64) (sum float64) {
	for s := range second + 1 {
		sum += mean * (1 + math.Sin(float64(s)/3)/2)
	}
	return sum
}

// topOf returns a model with 30 s of samples of n channels.
func topOf(n, width, height int) model {
	m := model{screen: screen{width: width, height: height, blocks: true}}
	m = m.after(eventsMsg{list: []status.Event{
		{Seq: 1, Time: topDay, Kind: status.EventLinkUp, Host: "krang", Text: "over quic with 10.0.0.1:8076"},
		{Seq: 2, Time: topDay.Add(time.Second), Kind: status.EventMirrorStale, Host: "krang", Mirror: "krang.joint-003", Text: "no frame for 1 s, its deadline is 1 s"},
	}})
	for second := range 31 {
		m = m.after(topStatusAt(n, second))
	}
	return m
}

// after returns the model after messages. A string is a list of pressed keys.
func (m model) after(messages ...any) model {
	for _, msg := range messages {
		text, ok := msg.(string)
		if !ok {
			next, _ := m.Update(msg)
			m = next.(model)
			continue
		}
		for _, key := range strings.Fields(text) {
			next, _ := m.Update(keyPress(key))
			m = next.(model)
		}
	}
	return m
}

func keyPress(name string) tea.KeyPressMsg {
	codes := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "up": tea.KeyUp, "end": tea.KeyEnd, "pgdown": tea.KeyPgDown, "backspace": tea.KeyBackspace}
	if code, ok := codes[name]; ok {
		return tea.KeyPressMsg{Code: code}
	}
	if name == "ctrl+c" {
		return tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
	}
	return tea.KeyPressMsg{Code: []rune(name)[0], Text: name}
}

// healthyTop returns a model with 30 healthy mirrors.
func healthyTop(width int) model {
	m := model{screen: screen{width: width, height: 24, blocks: true}}
	for second := range 31 {
		s := topStatusAt(50, second)
		s.Mirrors = slices.DeleteFunc(s.Mirrors, func(c status.Mirror) bool { return c.State != "live" || c.Age.Window.MeanMs > 50 })[:30]
		m = m.after(s)
	}
	return m
}

func TestTopGoldenPages(t *testing.T) {
	lost := statusMsg{err: errors.New("no daemon is running (control socket pc.sock)"), at: topDay.Add(35 * time.Second)}
	later := lost
	later.at = later.at.Add(12 * time.Second)
	troubled := topStatusAt(3, 35)
	troubled.Problems = []diagnose.Problem{
		{Finding: diagnose.Finding{Cause: status.CauseLinkRate, Text: "link from krang carries 1.1 of the 6.2 Mbit/s that 23 mirrors need: camera takes 84 %"}}, {},
	}
	for name, m := range map[string]model{
		"troubled":   topOf(3, 80, 24).after(troubled),
		"troubled_w": topOf(3, 140, 24).after(troubled),
		"one":        topOf(1, 80, 24),
		"thirty":     topOf(30, 80, 24),
		"unfolded":   topOf(30, 80, 24).after("down down down down down down down down down enter"),
		"healthy":    healthyTop(80),
		"healthy100": healthyTop(100),
		"healthy140": healthyTop(140),
		"bad100":     topOf(30, 100, 24),
		"bad140":     topOf(30, 140, 24),
		"wide":       topOf(30, 120, 40),
		"hundreds":   topOf(300, 80, 24).after("pgdown pgdown down"),
		"detail":     topOf(30, 80, 24).after("/ 0 0 3 enter enter"),
		"values":     topOf(30, 80, 30).after("/ 0 0 3 enter enter", inside("krang.joint-003")),
		"values_cut": topOf(30, 80, 24).after("/ 0 0 3 enter enter", inside("krang.joint-003")),
		"refused":    topOf(30, 80, 24).after("enter"),
		"export":     topOf(30, 80, 24).after("end enter"),
		"filter":     topOf(30, 80, 24).after("/ W a i t"),
		"none":       topOf(30, 80, 24).after("/ x y enter"),
		"lost":       topOf(3, 80, 24).after(lost, later),
		"small":      topOf(30, 40, 10),
		"unanswered": {screen: screen{width: 80, height: 24}},
		"by_name":    topOf(12, 80, 24).after("n"),
		"keys":       topOf(30, 80, 24).after("?"),
		"reason":     topOf(3, 80, 24).after(topRefused(3, 35)),
		"reason_in":  topOf(3, 80, 24).after(topRefused(3, 35), "enter"),
		"peak":       topPeak(80, 24),
		"peak_in":    topPeak(140, 30).after("enter"),
	} {
		page := m.page()
		for _, line := range page {
			if got := ansi.StringWidth(line); got > m.screen.width || len(page) > m.screen.height {
				t.Errorf("%s: got a line of %d columns, %d lines, want %d x %d: %q", name, got, len(page), m.screen.width, m.screen.height, line)
			}
		}
		got, file := strings.Join(page, "\n")+"\n", filepath.Join("testdata", "top", name+".txt")
		if *updateTop {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

// inside returns the values of a frame of channel.
func inside(channel string) valuesMsg {
	return valuesMsg{channel, 24, []string{
		"values  imu, 24 bytes", "  gyro.x:  1.5 rad/s", "  gyro.y:  -2 rad/s", "  gyro.z:  0.5 rad/s", "  mode:    RUN", "  name:    \"krang\"",
		"  text:    " + strings.Repeat("long ", 30)}}
}

func TestTopRequestsValuesOfShownChannel(t *testing.T) {
	asked := []string{}
	m := topOf(30, 80, 24)
	m.values = func(channel string) (int, []string) {
		asked = append(asked, channel)
		return 24, inside(channel).lines
	}
	press := func(key string) tea.Cmd {
		next, readValues := m.Update(keyPress(key))
		m = next.(model)
		return readValues
	}
	if press("n") != nil {
		t.Error("top requests values while the list is shown")
	}
	readValues := press("enter")
	if readValues == nil || press("down") != nil {
		t.Fatal("want one request at a time, while the detail is shown")
	}
	next, again := m.Update(readValues())
	m = next.(model)
	if strings.Contains(strings.Join(m.page(), "\n"), "gyro") {
		t.Error("the page of a channel shows values of another")
	}
	if again == nil {
		t.Fatal("top does not request the values of the channel that was selected meanwhile")
	}
	next, again = m.Update(again())
	m = next.(model)
	if again != nil || len(asked) != 2 || asked[0] == asked[1] {
		t.Errorf("got requests for %v, want one for each of two channels", asked)
	}
	if !strings.Contains(strings.Join(m.page(), "\n"), "gyro.x:  1.5 rad/s") {
		t.Error("the values are not shown")
	}
}

// An export, which is a peer's subscription, also has a local channel.
func TestTopRowsNameLocalChannel(t *testing.T) {
	if r := exportRow(status.Subscription{Channel: "imu", Peer: "pc"}, &history{}); r.channel != "imu" {
		t.Errorf("export: got %q, want imu", r.channel)
	}
	if r := mirrorRow(status.Mirror{Name: "robot.imu", Host: "robot", Channel: "imu"}, &history{}); r.channel != "robot.imu" {
		t.Errorf("mirror: got %q, want robot.imu", r.channel)
	}
}

func TestTopShowsDetailOnNarrowTerminal(t *testing.T) {
	for width := range 30 {
		topOf(3, width, 24).after("enter").page()
	}
}

// topRefused is like topStatusAt, with a mirror whose reason is longer than a line.
func topRefused(n, second int) statusMsg {
	s := topStatusAt(n, second)
	s.Mirrors[1].State, s.Mirrors[1].Reason = "refused", "the file /dev/shm/achshm-krang.joint-001 belongs to another program, which has it open: take another name for the mirror, or end the program"
	return s
}

// The page shows the full reason of any selected channel, and has as many lines as the terminal.
func TestTopShowsFullReasonOfSelectedChannel(t *testing.T) {
	for _, width := range []int{40, 80, 100, 140} {
		m := topOf(30, width, 24).after(topRefused(30, 35))
		for range m.rows {
			r, _ := m.shown()
			page := m.page()
			if r.rank() > 0 && !strings.Contains(closed(strings.Join(page, "")), closed(r.why())) || len(page) != m.screen.height || !strings.Contains(page[m.screen.height-1], "? keys") {
				t.Errorf("%d columns: want %q on the page of %d lines:\n%s", width, r.why(), len(page), strings.Join(page, "\n"))
			}
			m = m.after("down")
		}
	}
}

// closed returns text without its spaces.
func closed(text string) string { return strings.Join(strings.Fields(text), "") }

// topPeak returns a model with 30 s of samples of two channels. In one second, 10 s ago, the mean age of joint-001 was 3 s higher.
func topPeak(width, height int) model {
	m := topOf(2, width, height)
	h := m.past["in krang.joint-001"]
	for i := 20; i < len(h.samples); i++ {
		h.samples[i].age.sum += 3000
	}
	m.arrange()
	return m
}

// Every key except q closes the page of keys, which names all keys.
func TestTopListsKeyBindings(t *testing.T) {
	m := topOf(3, 80, 24).after("?")
	for _, back := range []string{"?", "esc", "x", "enter"} {
		if page := strings.Join(m.after(back).page(), "\n"); strings.Contains(page, "page up") || !strings.Contains(page, "CHANNEL") {
			t.Errorf("after ? and %s: want the list, got\n%s", back, page)
		}
	}
	page := strings.Join(m.page(), "\n")
	for _, o := range orders {
		if !strings.Contains(page, " "+o.key+",") && !strings.Contains(page, " "+o.key+" ") {
			t.Errorf("the page does not name %s:\n%s", o.key, page)
		}
	}
}

func TestTopWithoutUnicodeAndColourIsASCII(t *testing.T) {
	m := topOf(30, 80, 24)
	m.screen.blocks = false
	for _, m := range []model{m, m.after("end up up up enter")} {
		for _, r := range strings.Join(m.page(), "\n") {
			if r > '~' || r < ' ' && r != '\n' {
				t.Errorf("page has %q", r)
			}
		}
	}
}

func TestTopColourDoesNotChangeText(t *testing.T) {
	plain := topOf(30, 80, 24)
	colour := plain
	colour.screen.color = true
	page := strings.Join(colour.page(), "\n")
	if !strings.Contains(page, "\x1b[31m") || ansi.Strip(page) != strings.Join(plain.page(), "\n") {
		t.Errorf("with colour: want the same text in red, got\n%s", page)
	}
}

func TestTopSortsWorstFirst(t *testing.T) {
	names := func(m model) (list []string) {
		for _, r := range m.rows {
			list = append(list, strings.TrimPrefix(r.name, "krang.joint-"))
		}
		return list
	}
	m := topOf(10, 80, 24)
	for keys, want := range map[string]string{
		"":          "008 007 009 004 006 003 005 002 001 000 goal > krang", // refused, waiting, over its budget
		"a":         "009 008 004 006 003 005 002 001 000 goal > krang 007",
		"n":         "goal > krang 000 001 002 003 004 005 006 007 008 009",
		"s s s s s": "008 007 009 004 006 003 005 002 001 000 goal > krang",
	} {
		if got := strings.Join(names(m.after(keys)), " "); got != want {
			t.Errorf("keys %q: got %s, want %s", keys, got, want)
		}
	}
}

// A frame that is put once in ten seconds is up to ten seconds old without a problem. The same age is a problem if frames are put
// more often, or no longer.
func TestTopDoesNotMarkSlowChannels(t *testing.T) {
	begun, old, older := 40.0, 9900.0, 25_000.0
	slow := func(name string, age, period float64) status.Mirror {
		return status.Mirror{
			Host: "krang", Channel: name, Name: name, State: "live", AgeMs: &age, PeriodMs: &period,
			Age: &status.Age{Window: &status.AgeFigures{P99Ms: age}, Total: &status.AgeFigures{WindowS: begun}},
		}
	}
	for _, c := range []struct {
		name   string
		mirror status.Mirror
		bad    bool
	}{
		{"put once in ten seconds", slow("log", old, 10_000), false},
		{"not put any more", slow("log", older, 10_000), true},
		{"put at 10 Hz", slow("camera", old, 100), true},
	} {
		past := (&history{}).with(sample{begun, ageSoFar{}, c.mirror.FrameCounters})
		if r := mirrorRow(c.mirror, past); r.bad() != c.bad {
			t.Errorf("%s: got %.2f of the budget used, bad %v, want bad %v", c.name, r.used, r.bad(), c.bad)
		}
	}
}

// A mirror that receives only late frames has the state live and the health late.
func TestTopShowsLateMirror(t *testing.T) {
	readValues := topStatusAt(3, 5)
	readValues.Mirrors[1].LateS = 4.2
	m := model{screen: screen{width: 120, height: 24}}.after(readValues)
	found := false
	for _, r := range m.rows {
		if r.name == readValues.Mirrors[1].Name {
			found = r.bad() && r.has("late")
		}
	}
	if page := strings.Join(m.page(), "\n"); !found || !strings.Contains(page, "no frame in time for 4") || !strings.Contains(page, "live 2") {
		t.Errorf("want one late and two live mirrors, got\n%s", page)
	}
}

func TestTopKeepsSelectedChannelWhenRowsMove(t *testing.T) {
	m := topOf(30, 80, 24).after("down down down")
	row, _ := m.shown()
	for _, keys := range []string{"n", "a", "s", "u"} {
		m = m.after(keys, topStatusAt(30, 40))
		if now, _ := m.shown(); now.key != row.key {
			t.Errorf("after %s: got %s selected, want %s", keys, now.name, row.name)
		}
	}
	if m = m.after(topStatusAt(1, 41)); m.index() != 0 {
		t.Errorf("selected channel removed: got row %d selected, want 0", m.index())
	}
}

func TestTopRestartsCountersWithDaemon(t *testing.T) {
	s := topStatusAt(1, 0)
	s.PID, s.UptimeS = 8, 1
	m := topOf(1, 80, 24).after(s)
	if r := m.rows[0]; r.rate == r.rate || len(r.ages) != 0 {
		t.Errorf("one sample of the new daemon: got a rate of %v and %d ages, want none", r.rate, len(r.ages))
	}
	s.UptimeS++
	for i := range s.Mirrors {
		s.Mirrors[i].FrameCounters.Delivered += 50
	}
	if r := m.after(s).rows[0]; r.rate != 50 {
		t.Errorf("got %v frames a second, want 50", r.rate)
	}
}

func TestTopQuits(t *testing.T) {
	for _, keys := range []string{"q", "ctrl+c", "/ a ctrl+c", "enter q"} {
		m := topOf(1, 80, 24)
		list := strings.Fields(keys)
		m = m.after(strings.Join(list[:len(list)-1], " "))
		_, cmd := m.Update(keyPress(list[len(list)-1]))
		if cmd == nil {
			t.Errorf("%s: top does not quit", keys)
		} else if _, quit := cmd().(tea.QuitMsg); !quit {
			t.Errorf("%s: top does not quit", keys)
		}
	}
	if _, cmd := topOf(1, 80, 24).after("/").Update(keyPress("q")); cmd != nil {
		t.Error("a q in the filter quits, want it added to the filter")
	}
}

// request is a change that an action asked for.
type request struct {
	row    string
	before rule.Mirror
	after  rule.Mirror
	err    error
}

// acting returns a model whose actions record their requests. The mirrors have the given request.
func acting(before rule.Mirror, list *[]request) model {
	m := topOf(1, 80, 24)
	m.change = func(r channelRow, change func(*rule.Mirror) error) tea.Cmd {
		after := before
		err := change(&after)
		*list = append(*list, request{r.name, before, after, err})
		return func() tea.Msg { return resultMsg{r.name, err} }
	}
	m.diagnose = func(r channelRow) tea.Cmd {
		return func() tea.Msg {
			return whyMsg{r.channel, []string{"why     link_rate: too slow", "fix     a faster link"}}
		}
	}
	return m
}

func TestKeysChangeChosenMirror(t *testing.T) {
	high, every, pausedQoS := rule.QoS{Priority: 8}, rule.QoS{Mode: rule.Every}, rule.QoS{MaxRate: paused}
	for keys, c := range map[string]struct {
		before rule.QoS
		want   string // changes of the request, or the error
	}{
		"+":    {rule.QoS{}, "priority 5 now"},
		"-":    {rule.QoS{}, "priority 3 now"},
		"= ":   {high, "its priority is 7 already"},
		"p p":  {rule.QoS{}, "max_rate 0.001 now"},
		"p  p": {every, "a mirror with mode every cannot be paused"},
		" p p": {pausedQoS, "resume"},
	} {
		var list []request
		m := acting(rule.Mirror{QoS: c.before}, &list).after(keys)
		if len(list) != 1 || list[0].row != "krang.joint-000" {
			t.Errorf("%q: got %+v, want one request", keys, list)
			continue
		}
		got := rule.Changes(list[0].before.QoS, list[0].after.QoS)
		if list[0].err != nil {
			got = list[0].err.Error()
		}
		if got != c.want {
			t.Errorf("%q: got %q, want %q (%s)", keys, got, c.want, m.note)
		}
	}
}

func TestPauseIsConfirmedAndOnlyForMirrors(t *testing.T) {
	var list []request
	m := acting(rule.Mirror{}, &list).after("p")
	if !strings.Contains(strings.Join(m.page(), "\n"), "press p again to pause krang.joint-000") || len(list) != 0 {
		t.Errorf("got requests %v and page\n%s", list, strings.Join(m.page(), "\n"))
	}
	if m = m.after("down p p"); len(list) != 0 || !strings.Contains(m.note, "only mirrors of this host") {
		t.Errorf("got requests %v and note %q for a channel that is sent", list, m.note)
	}
}

func TestWhyIsShownForChosenChannel(t *testing.T) {
	var list []request
	m := acting(rule.Mirror{}, &list)
	next, cmd := m.Update(keyPress("w"))
	m = next.(model).after(cmd())
	if page := strings.Join(m.page(), "\n"); !strings.Contains(page, "fix     a faster link") {
		t.Errorf("got\n%s\nwant the diagnosis", page)
	}
}
