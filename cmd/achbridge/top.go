package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func topCommand(a *app) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch all channels, the worst first",
		Long: `Watch the channels that the running daemon mirrors and sends, on the whole
terminal, once a second; the worst come first: refused, waiting, stale, and then by
USED. That is the share of its budget that the age of a mirror takes up: its P99 over
the last ten seconds, or its age now if that is more, less the time between two frames
of the channel, for so old it becomes of itself. RATE is frames put into a mirror each
second, DROP frames that did not get there, but for those beyond max_rate. The bars
show the mean age of each second, the newest on the right, as high as the highest, or a
quarter of the budget if that is more. ! marks what is over its budget or not live.
IMU > PC is sent there.

  up, down, page up, page down, home, end    choose a channel
  Enter, Esc    all about one channel: its ledger, its link, its events; and back
  /             show channels only whose line has that text; Esc: all
  s             sort by another column; u, a, r, d, n by USED, AGE, RATE, DROP, name
  q, Ctrl-C     quit

Without colour where NO_COLOR is set; on a terminal that cannot be painted
(TERM=dumb) page after page.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.top(cmd.Context(), a.client(path))
		},
	}
	controlFlag(cmd, &path)
	return cmd
}

// topEvery is how often top looks, and topPatience how long it waits for an answer.
const (
	topEvery    = time.Second
	topPatience = 3 * time.Second
)

func (a *app) top(ctx context.Context, c *client) error {
	out, ok := a.ui.out.(*os.File)
	if !ok || !isTerminal(out) {
		return misused(errors.New("top: stdout is no terminal"), "achbridge status --watch")
	}
	m := topModel{color: a.ui.outColor, blocks: isUTF8(a.env), sources: topSources(ctx, c)}
	m.width, m.height = sizeOf(out)
	first := m.ask().(topStatus)
	if first.err != nil {
		return first.err // on the terminal that stays
	}
	m.take(first)
	if m.deaf = a.env("TERM") == "dumb"; m.deaf {
		return a.topPages(ctx, m)
	}
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithOutput(out), tea.WithInput(a.in), tea.WithoutSignalHandler(),
		tea.WithFilter(sized)).Run()
	if ctx.Err() != nil || err == nil {
		return nil
	}
	return failed(fmt.Errorf("top: %w", err), "")
}

// topPages prints a page a second below one another, until ctx ends.
func (a *app) topPages(ctx context.Context, m topModel) error {
	for {
		if err := a.ui.line("%s\n", strings.Join(m.page(), "\n")); err != nil {
			return err
		}
		rest(ctx, topEvery)
		if ctx.Err() != nil {
			return nil
		}
		m.take(m.ask().(topStatus))
	}
}

// A terminal that does not tell its size, as on a serial line, is taken to have this.
const (
	usualWidth  = 80
	usualHeight = 24
)

func sizeOf(out *os.File) (width, height int) {
	size, err := unix.IoctlGetWinsize(int(out.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || size.Row == 0 {
		return usualWidth, usualHeight
	}
	return int(size.Col), int(size.Row)
}

// sized gives a size to a terminal without.
func sized(_ tea.Model, msg tea.Msg) tea.Msg {
	if size, ok := msg.(tea.WindowSizeMsg); ok && (size.Width == 0 || size.Height == 0) {
		return tea.WindowSizeMsg{Width: usualWidth, Height: usualHeight}
	}
	return msg
}

// isUTF8 reports whether the locale can show more than ASCII.
func isUTF8(env func(string) string) bool {
	locale := strings.ToLower(cmp.Or(env("LC_ALL"), env("LC_CTYPE"), env("LANG")))
	return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
}

// sources ask the daemon; the answers are messages for the model.
type sources struct {
	ask    func() tea.Msg // a topStatus
	follow func() tea.Msg // a topEvents, when there are some or after a while
}

func topSources(ctx context.Context, c *client) sources {
	quick := *c
	quick.http.Timeout = topPatience
	var f eventFollower
	return sources{
		ask: func() tea.Msg {
			var s statusReply
			_, err := quick.get(ctx, "/v1/status", &s)
			return topStatus{s, err, time.Now()}
		},
		follow: func() tea.Msg {
			l, err := f.next(ctx, c, eventWait)
			return topEvents{l.Events, err}
		},
	}
}
