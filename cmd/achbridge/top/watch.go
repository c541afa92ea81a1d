package top

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"achbridge/bridge/rule"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/ui"
)

// refreshEvery is the interval between requests for the status. patience is how long top waits for each answer.
const (
	refreshEvery = time.Second
	patience     = 3 * time.Second
)

// Config selects the daemon and the terminal.
type Config struct {
	Terminal *ui.Terminal
	Client   *api.Client // client of the daemon
	In       io.Reader   // source of the keys
	Env      func(string) string
	// Values returns the size in bytes of the newest frame of a channel of this host, 0 if there is none, and its values
	// as lines, nil if they are unknown. Another goroutine calls it, one call at a time. Values may be nil.
	Values func(ctx context.Context, channel string) (size int, lines []string)
}

// Watch shows the channels of a daemon on the terminal until ctx ends or the user presses q.
func Watch(ctx context.Context, cfg Config) error {
	t, env := cfg.Terminal, cfg.Env
	out, ok := t.Out.(*os.File)
	if !ok || !ui.IsTerminal(out) {
		return ui.Usage(errors.New("top: stdout is not a terminal"), "achbridge status --watch")
	}
	m := model{screen: screen{color: t.Color, blocks: ui.IsUTF8(env)}, sources: askDaemon(ctx, cfg.Client)}
	if cfg.Values != nil {
		m.values = func(channel string) (int, []string) { return cfg.Values(ctx, channel) }
	}
	m.screen.width, m.screen.height = ui.ScreenSize(out)
	first := m.ask().(statusMsg)
	if first.err != nil {
		return first.err // before the full-screen view hides the error
	}
	m.take(first)
	if m.screen.deaf = env("TERM") == "dumb"; m.screen.deaf {
		return m.showPages(ctx, t)
	}
	return ui.Show(ctx, "top", m, cfg.In, out)
}

// showPages prints one page a second, each below the last, until ctx ends.
func (m model) showPages(ctx context.Context, t *ui.Terminal) error {
	for {
		if err := t.Line("%s\n", strings.Join(m.page(), "\n")); err != nil {
			return err
		}
		api.Rest(ctx, refreshEvery)
		if ctx.Err() != nil {
			return nil
		}
		m.take(m.ask().(statusMsg))
	}
}

// sources has the functions that query the daemon. Each answer is a message for the model.
type sources struct {
	ask    func() tea.Msg                       // returns a statusMsg
	follow func() tea.Msg                       // returns an eventsMsg, at the next event or after api.EventWait
	values func(channel string) (int, []string) // nil if values are not available
	// diagnose and change return commands whose messages are a whyMsg and a resultMsg.
	diagnose func(channelRow) tea.Cmd
	change   func(channelRow, func(*rule.Mirror) error) tea.Cmd
}

func askDaemon(ctx context.Context, c *api.Client) sources {
	quick := c.Within(patience)
	var f api.EventFollower
	return sources{
		diagnose: diagnosis(ctx, c),
		change:   changes(ctx, c),
		ask: func() tea.Msg {
			var s api.StatusReply
			_, err := quick.Get(ctx, "/v1/status", &s)
			return statusMsg{s, err, time.Now()}
		},
		follow: func() tea.Msg {
			l, err := f.Next(ctx, c, api.EventWait)
			return eventsMsg{l.Events, err}
		},
	}
}
