package plot

import (
	"context"
	"io"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"

	"achbridge/cmd/achbridge/ui"
)

// drawEvery is the time between two pictures.
const drawEvery = 100 * time.Millisecond

// Watch shows the plot on the terminal out until ctx ends or the user presses q. Keys come from in.
func Watch(ctx context.Context, out *os.File, in io.Reader, p *Plot, on Screen) error {
	on.Width, on.Height = ui.ScreenSize(out)
	m := model{plot: p, on: on, now: time.Now()}
	return ui.Show(ctx, "plot", m, in, out)
}

// model is what the terminal shows.
type model struct {
	plot *Plot
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
func (m model) View() tea.View { return ui.Page(m.plot.Page(m.now, m.on)) }
