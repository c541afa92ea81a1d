package plot

import (
	"context"
	"io"
	"os"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"achbridge/cmd/achbridge/ui"
)

// Shared is a plot that one goroutine fills while another one draws it.
type Shared struct {
	mu   sync.Mutex
	plot *Plot
}

// Share makes a plot one that two goroutines may use. Nobody may use it directly any more.
func Share(p *Plot) *Shared { return &Shared{plot: p} }

// With calls use with the plot, which no other goroutine uses meanwhile.
func (s *Shared) With(use func(*Plot)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	use(s.plot)
}

func (s *Shared) page(now time.Time, on Screen) (text string) {
	s.With(func(p *Plot) { text = p.Page(now, on) })
	return text
}

// drawEvery is the time between two pictures.
const drawEvery = 100 * time.Millisecond

// Watch shows the plot on the terminal out until ctx ends or the user presses q. Keys come from in.
func Watch(ctx context.Context, out *os.File, in io.Reader, s *Shared, on Screen) error {
	on.Width, on.Height = ui.ScreenSize(out)
	m := model{plot: s, on: on, now: time.Now()}
	return ui.Show(ctx, "plot", m, in, out)
}

// model is what the terminal shows.
type model struct {
	plot *Shared
	on   Screen
	now  time.Time
}

type tickMsg time.Time

func tick() tea.Cmd { return tea.Tick(drawEvery, func(t time.Time) tea.Msg { return tickMsg(t) }) }

// Init starts the clock.
func (m model) Init() tea.Cmd { return tick() }

// Update changes the model by one message.
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.on.Width, m.on.Height = msg.Width, msg.Height
	case tickMsg:
		m.now = time.Time(msg)
		return m, tick()
	case tea.KeyPressMsg:
		if key := msg.String(); key == "q" || key == "ctrl+c" {
			return m, tea.Quit
		}
	}
	return m, nil
}

// View draws the whole screen.
func (m model) View() tea.View { return ui.Page(m.plot.page(m.now, m.on)) }
