package top

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"

	tea "charm.land/bubbletea/v2"

	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
)

// Keys that act on the chosen row: w shows its diagnosis, p pauses or resumes a mirror, + and - change its priority. They send the
// same requests as achbridge why and achbridge mirror.

// paused is the maximum rate of a paused mirror: one frame in 1000 s, the lowest rate that a request can have.
const paused rule.Rate = 1

// resultMsg is the result of an action on a mirror, for the line of notes.
type resultMsg struct {
	text string
	err  error
}

// whyMsg is the diagnosis of a channel as lines.
type whyMsg struct {
	channel string
	lines   []string
}

// act handles a key that acts on the chosen row. ok is false for other keys.
func (m model) act(key string) (next model, cmd tea.Cmd, ok bool) {
	r, some := m.shown()
	confirmed := m.confirm == r.key && key == "p"
	m.confirm, m.note = "", ""
	acts := key == "w" || key == "p" || key == "+" || key == "=" || key == "-"
	switch {
	case !acts:
		return m, nil, false
	case !some || r.folded > 0:
	case key == "w":
		m.detail, m.why = true, whyMsg{r.channel, []string{"why     looking ..."}}
		return m, m.diagnose(r), true
	case !r.in:
		m.note = r.name + ": only mirrors of this host can be paused or get another priority"
	case key == "p" && !confirmed:
		m.confirm, m.note = r.key, "press p again to pause "+r.name
		if r.isPaused() {
			m.note = "press p again to resume " + r.name
		}
	case key == "p":
		return m, m.change(r, pause), true
	case key == "-":
		return m, m.change(r, func(q *rule.Mirror) error { return priority(q, -1) }), true
	default:
		return m, m.change(r, func(q *rule.Mirror) error { return priority(q, 1) }), true
	}
	return m, nil, true
}

// errResume is the error of pause for a paused mirror, which must be resumed instead.
var errResume = errors.New("resume")

func pause(q *rule.Mirror) error {
	switch {
	case q.QoS.MaxRate == paused:
		return errResume
	case q.QoS.Mode == rule.Every:
		return errors.New("a mirror with mode every cannot be paused")
	}
	q.QoS.MaxRate = paused
	return nil
}

func priority(q *rule.Mirror, by int) error {
	level := q.QoS.Priority.Level() + by
	if level < 0 || level >= rule.Levels {
		return fmt.Errorf("its priority is %d already", q.QoS.Priority.Level())
	}
	return q.QoS.Set("priority", fmt.Sprint(level), nil)
}

// diagnosis returns the function that asks the daemon for the diagnosis of a row.
func diagnosis(ctx context.Context, c *api.Client) func(channelRow) tea.Cmd {
	return func(r channelRow) tea.Cmd {
		return func() tea.Msg {
			var report api.WhyReport
			query := url.Values{"of": {r.channel}, "window": {api.WhyWindow.String()}}
			if _, err := c.Within(api.AnswerTime+api.WhyWindow).Get(ctx, "/v1/why?"+query.Encode(), &report); err != nil {
				return whyMsg{r.channel, []string{"why     " + err.Error()}}
			}
			lines := []string{"why     " + string(report.Cause) + ": " + report.Text}
			for _, e := range report.Evidence {
				lines = append(lines, "        "+e)
			}
			if report.Fix != "" {
				lines = append(lines, "fix     "+report.Fix)
			}
			return whyMsg{r.channel, lines}
		}
	}
}

// changes returns the function that changes the options of a mirror, by a request for this mirror only. The request lasts until the
// daemon stops.
func changes(ctx context.Context, c *api.Client) func(channelRow, func(*rule.Mirror) error) tea.Cmd {
	quick := c.Within(patience)
	var before sync.Map // requests of the mirrors from before top paused them, by the keys of their rows
	return func(r channelRow, change func(*rule.Mirror) error) tea.Cmd {
		return func() tea.Msg {
			var request rule.Mirror
			if _, err := quick.Get(ctx, "/v1/mirror-request?of="+url.QueryEscape(r.of), &request); err != nil {
				return resultMsg{r.name, err}
			}
			changed := request
			changed.Host, changed.Channel = r.host, r.originChannel()
			err := change(&changed)
			if errors.Is(err, errResume) {
				former, _ := before.LoadAndDelete(r.key)
				request, _ = former.(rule.Mirror) // the zero Mirror if another top has paused the mirror
				return resume(ctx, quick, r, request)
			}
			if err != nil {
				return resultMsg{r.name, err}
			}
			if changed.QoS.MaxRate == paused {
				before.Store(r.key, request)
			}
			err = ask(ctx, quick, changed)
			return resultMsg{r.name + ": " + rule.Changes(request.QoS, changed.QoS), err}
		}
	}
}

// originChannel returns the name of a mirror's channel on its origin.
func (r channelRow) originChannel() string { return strings.TrimPrefix(r.of, r.host+"/") }

// resume makes the request that a paused mirror had before. If that request had a pattern, or is not known, resume instead ends the
// request that paused the mirror, so that the pattern applies again.
func resume(ctx context.Context, c *api.Client, r channelRow, before rule.Mirror) tea.Msg {
	channel := r.originChannel()
	if before.Host == r.host && before.Channel == channel {
		return resultMsg{r.name + " is resumed", ask(ctx, c, before)}
	}
	var ended api.UnmirrorReply
	return resultMsg{r.name + " is resumed", c.Post(ctx, "/v1/unmirror", api.UnmirrorRequest{Host: r.host, Channel: channel}, &ended)}
}

// ask sends a mirror request to the daemon.
func ask(ctx context.Context, c *api.Client, m rule.Mirror) error {
	var made []status.Mirror
	return c.Post(ctx, "/v1/mirror", m, &made)
}
