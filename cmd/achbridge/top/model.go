package top

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/ui"
)

// model is what top shows, and how far its user is. Messages change it; it asks
// nobody itself and has no clock.
type model struct {
	sources
	width, height int
	color         ui.Color
	blocks        bool // it may draw with more than ASCII
	deaf          bool // nobody can press keys

	status api.StatusReply
	at     time.Time     // of the status
	err    error         // why the daemon does not answer any more; nil: it does
	lost   time.Duration // for how long it has not
	past   map[string]*history
	events []status.Event // the newest, oldest first

	rows   []channelRow // those that the filter lets through, in order
	all    int          // how many there are
	order  int          // in topOrders
	filter string
	typing bool   // the filter
	chosen string // key of a row; "" is the first
	detail bool
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

// keptEvents are enough for the last line and for the detail of a channel.
const keptEvents = 200

// Init asks for everything.
func (m model) Init() tea.Cmd { return tea.Batch(m.ask, m.follow) }

// Update takes a message.
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case statusMsg:
		m.take(msg)
		return m, tea.Tick(lookEvery, func(time.Time) tea.Msg { return askMsg{} })
	case askMsg:
		return m, m.ask
	case eventsMsg:
		m.events = append(m.events[:len(m.events):len(m.events)], msg.list...)
		m.events = m.events[max(0, len(m.events)-keptEvents):]
		if msg.err != nil {
			return m, tea.Tick(lookEvery, func(time.Time) tea.Msg { return followMsg{} })
		}
		return m, m.follow
	case followMsg:
		return m, m.follow
	case tea.KeyPressMsg:
		return m.press(msg)
	}
	return m, nil
}

// View is the whole terminal.
func (m model) View() tea.View {
	v := tea.NewView(strings.Join(m.page(), "\n"))
	v.AltScreen = true
	return v
}

// take takes a status, or that there was none: then the last one stays.
func (m *model) take(s statusMsg) {
	if s.err != nil {
		m.err, m.lost = s.err, s.at.Sub(m.at)
		return
	}
	if m.status.PID != s.PID || s.UptimeS < m.status.UptimeS {
		m.past = nil // it counts anew
	}
	m.status, m.at, m.err = s.StatusReply, s.at, nil
	m.look()
	m.arrange()
}

// look notes what the status says of each channel beside what it said before.
func (m *model) look() {
	past := make(map[string]*history, len(m.past))
	note := func(key string, s sample) {
		p := m.past[key]
		if p == nil {
			p = &history{}
		}
		past[key] = p.with(s)
	}
	for _, c := range m.status.Mirrors {
		note(inKey(c), sample{m.status.UptimeS, ageSum(c), c.Accounts})
	}
	for _, e := range m.status.Exports {
		note(outKey(e), sample{m.status.UptimeS, ageSoFar{}, e.Accounts})
	}
	m.past = past
}

func inKey(c status.Mirror) string        { return "in " + c.Name }
func outKey(e status.Subscription) string { return "out " + e.Channel + " " + e.Peer }

// ageSum is the age of a mirror summed up over time.
func ageSum(c status.Mirror) ageSoFar {
	if c.Age == nil || c.Age.Total == nil {
		return ageSoFar{}
	}
	return ageSoFar{c.Age.Total.MeanMs * c.Age.Total.WindowS, c.Age.Total.WindowS}
}

// arrange makes the rows anew: which there are, and in which order.
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

// percent rounds, so that what is about the same is in the order of its names.
func percent(share float64) float64 { return math.Round(100 * share) }

// downward has the greater first, and last what is not known.
func downward(a, b float64) int { return cmp.Compare(b, a) } // NaN is less than all

// press does what a key asks for.
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
	return m, nil
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

// move chooses another row.
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
		m.chosen = "" // whatever is the worst
	}
}

// index is where the chosen row is, 0 when there is none.
func (m model) index() int {
	return max(0, slices.IndexFunc(m.rows, func(r channelRow) bool { return r.key == m.chosen }))
}
