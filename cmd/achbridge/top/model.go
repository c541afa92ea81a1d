package top

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/ui"
)

// model holds the displayed data and the choices of the user. Messages change it. It has no clock and does no I/O.
type model struct {
	sources
	screen screen

	status api.StatusReply
	at     time.Time     // when the status was taken
	err    error         // why the daemon no longer answers; nil while it does
	lost   time.Duration // for how long the daemon has not answered
	past   map[string]*history
	events []status.Event // oldest first, at most keptEvents

	rows   []channelRow // rows that match the filter, in the order shown
	all    int          // number of rows without the filter
	order  int          // index in orders
	filter string
	typing bool   // the user is typing the filter
	chosen string // key of the chosen row; "" means the first row
	detail bool   // the detail page is shown
	help   bool   // the page of keys is shown

	unfolded map[string]bool // groups of equal rows that the user has unfolded
	confirm  string          // key of the row for which p must be pressed again to take effect
	note     string          // result of the last action, until the next key
	why      whyMsg          // the last diagnosis

	inside  valuesMsg // values in the newest frame of the channel whose detail page was shown last
	looking bool      // a request for these values is running
}

// screen describes the terminal.
type screen struct {
	width, height int
	color         ui.Color
	blocks        bool // the terminal can show more than ASCII
	deaf          bool // the terminal sends no keys
}

// valuesMsg holds the size in bytes of a channel's newest frame, 0 if there is none, and its values as lines of text, or no lines if
// its layout is not known.
type valuesMsg struct {
	channel string
	size    int
	lines   []string
}

type statusMsg struct {
	api.StatusReply
	err error
	at  time.Time
}

type eventsMsg struct {
	list []status.Event
	err  error
}

type (
	askMsg    struct{}
	followMsg struct{}
)

// keptEvents is enough for the event line and for the detail page of a channel.
const keptEvents = 200

// Init requests the first status and the first events.
func (m model) Init() tea.Cmd { return tea.Batch(m.ask, m.follow) }

// Update changes the model by one message.
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.screen.width, m.screen.height = msg.Width, msg.Height
	case statusMsg:
		m.take(msg)
		readValues := m.readChosen()
		return m, tea.Batch(readValues, tea.Tick(refreshEvery, func(time.Time) tea.Msg { return askMsg{} }))
	case valuesMsg:
		m.inside, m.looking = msg, false
		if r, ok := m.shown(); ok && r.channel != msg.channel {
			readValues := m.readChosen() // the user has chosen another channel meanwhile
			return m, readValues
		}
	case resultMsg:
		m.note = msg.text
		if msg.err != nil {
			m.note = msg.text + ": " + msg.err.Error()
		}
		return m, m.ask
	case whyMsg:
		m.why = msg
	case askMsg:
		return m, m.ask
	case eventsMsg:
		m.events = append(m.events[:len(m.events):len(m.events)], msg.list...)
		m.events = m.events[max(0, len(m.events)-keptEvents):]
		if msg.err != nil {
			return m, tea.Tick(refreshEvery, func(time.Time) tea.Msg { return followMsg{} })
		}
		return m, m.follow
	case followMsg:
		return m, m.follow
	case tea.KeyPressMsg:
		return m.press(msg)
	}
	return m, nil
}

// View draws the whole screen.
func (m model) View() tea.View { return ui.Page(strings.Join(m.page(), "\n")) }

// take stores a status. If the daemon did not answer, take keeps the last status.
func (m *model) take(s statusMsg) {
	if s.err != nil {
		m.err, m.lost = s.err, s.at.Sub(m.at)
		return
	}
	if m.status.PID != s.PID || s.UptimeS < m.status.UptimeS {
		m.past = nil // the daemon has restarted: its counters began at zero
	}
	m.status, m.at, m.err = s.StatusReply, s.at, nil
	m.refresh()
	m.arrange()
}

// readChosen requests the values of the channel whose detail page is shown.
func (m *model) readChosen() tea.Cmd {
	r, ok := m.shown()
	if !ok || !m.detail || m.looking || m.values == nil {
		return nil
	}
	m.looking = true
	values, channel := m.values, r.channel
	return func() tea.Msg {
		size, lines := values(channel)
		return valuesMsg{channel, size, lines}
	}
}

// refresh adds the new status to the history of each channel.
func (m *model) refresh() {
	past := make(map[string]*history, len(m.past))
	note := func(key string, s sample) {
		p := m.past[key]
		if p == nil {
			p = &history{}
		}
		past[key] = p.with(s)
	}
	for _, c := range m.status.Mirrors {
		note(inKey(c), sample{m.status.UptimeS, ageSum(c), c.FrameCounters})
	}
	for _, e := range m.status.Exports {
		note(outKey(e), sample{m.status.UptimeS, ageSoFar{}, e.FrameCounters})
	}
	m.past = past
}

func inKey(c status.Mirror) string        { return "in " + c.Name }
func outKey(e status.Subscription) string { return "out " + e.Channel + " " + e.Peer }

// ageSum returns the integral of a mirror's age over time.
func ageSum(c status.Mirror) ageSoFar {
	if c.Age == nil || c.Age.Total == nil {
		return ageSoFar{}
	}
	return ageSoFar{c.Age.Total.MeanMs * c.Age.Total.WindowS, c.Age.Total.WindowS}
}

// arrange rebuilds the rows from the status, the filter and the order.
func (m *model) arrange() {
	m.rows = nil
	for _, c := range m.status.Mirrors {
		m.rows = append(m.rows, mirrorRow(c, m.past[inKey(c)]))
	}
	for _, e := range m.status.Exports {
		m.rows = append(m.rows, exportRow(e, m.past[outKey(e)]))
	}
	m.all = len(m.rows)
	m.rows = slices.DeleteFunc(m.rows, func(r channelRow) bool { return !r.has(m.filter) })
	less := orders[m.order].cmp
	slices.SortStableFunc(m.rows, func(a, b channelRow) int { return cmp.Or(less(a, b), cmp.Compare(a.name, b.name)) })
	m.fold()
}

// ordering is one way to sort the rows.
type ordering struct {
	key, name string
	cmp       func(a, b channelRow) int
}

var orders = []ordering{
	{"u", "used", func(a, b channelRow) int {
		return cmp.Or(-cmp.Compare(a.rank(), b.rank()), downward(percent(a.used), percent(b.used)))
	}},
	{"a", "age", func(a, b channelRow) int { return downward(a.age, b.age) }},
	{"r", "rate", func(a, b channelRow) int { return downward(a.rate, b.rate) }},
	{"d", "drop", func(a, b channelRow) int { return downward(a.drops, b.drops) }},
	{"n", "name", func(a, b channelRow) int { return 0 }},
}

// percent rounds a share to whole percent, so that rows with about the same share are sorted by name.
func percent(share float64) float64 { return math.Round(100 * share) }

// downward sorts greater values first and NaN last.
func downward(a, b float64) int { return cmp.Compare(b, a) } // NaN is less than all

// press handles a key.
func (m model) press(k tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	key := k.String()
	switch {
	case key == "ctrl+c":
		return m, tea.Quit
	case m.typing:
		m.typeFilter(k)
		return m, nil
	case key == "q":
		return m, tea.Quit
	case key == "?" || m.help: // with help shown, any other key goes back
		m.help = !m.help
		return m, nil
	}
	m, cmd, ok := m.act(key)
	if ok {
		return m, cmd
	}
	switch {
	case key == "enter" && m.toggle():
	case key == "enter":
		m.detail = !m.detail && len(m.rows) > 0
	case key == "esc" || key == "backspace":
		if !m.detail {
			m.filter = ""
		}
		m.detail = false
	case key == "/":
		m.typing, m.detail = true, false
	case key == "s":
		m.order = (m.order + 1) % len(orders)
	default:
		m.move(key)
		if i := slices.IndexFunc(orders, func(o ordering) bool { return o.key == key }); i >= 0 {
			m.order = i
		}
	}
	m.arrange()
	readValues := m.readChosen()
	return m, readValues
}

// toggle folds or unfolds the equal rows that the chosen row replaces. It returns false for the row of a channel.
func (m *model) toggle() bool {
	r, ok := m.shown()
	if !ok || r.folded == 0 || m.detail {
		return false
	}
	m.unfolded = maps.Clone(m.unfolded)
	if m.unfolded == nil {
		m.unfolded = map[string]bool{}
	}
	m.unfolded[r.key] = !m.unfolded[r.key]
	return true
}

func (m *model) typeFilter(k tea.KeyPressMsg) {
	switch k.String() {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.filter = false, ""
	case "backspace":
		runes := []rune(m.filter)
		m.filter = string(runes[:max(0, len(runes)-1)])
	default:
		m.filter += k.Text
	}
	m.chosen = ""
	m.arrange()
}

// move handles the keys that choose another row.
func (m *model) move(key string) {
	steps := map[string]int{
		"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -m.room(), "pgdown": m.room(),
		"home": -len(m.rows), "g": -len(m.rows), "end": len(m.rows), "G": len(m.rows),
	}
	step, ok := steps[key]
	if !ok || len(m.rows) == 0 {
		return
	}
	i := max(0, min(m.index()+step, len(m.rows)-1))
	m.chosen = m.rows[i].key
	if i == 0 {
		m.chosen = "" // stay on the first row, even when another becomes the first
	}
}

// index returns the index of the chosen row, 0 if that row is gone.
func (m model) index() int {
	return max(0, slices.IndexFunc(m.rows, func(r channelRow) bool { return r.key == m.chosen }))
}
