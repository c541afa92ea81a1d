package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"achbridge/bridge/ledger"
	"achbridge/bridge/rule"
	"achbridge/bridge/status"
	"achbridge/cmd/achbridge/api"
	"achbridge/cmd/achbridge/diagnose"
	"achbridge/cmd/achbridge/page"
)

// pageState is a state of the host planner, which the page shows in a test.
type pageState struct {
	name    string
	mirrors []pageMirror
	events  []status.Event
}

// pageMirror is a mirror with a problem; problem is the name of an entry of problems.
type pageMirror struct{ host, channel, problem string }

// pageTime is the time of the first event.
var pageTime = time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC)

var pageStates = []pageState{
	{"healthy", []pageMirror{
		{"krang", "imu", "well"}, {"krang", "joints", "well"}, {"krang", "camera-front", "superseded on purpose"}, {"atlas", "imu", "well"}, {"dock", "charge", "rests as usual"},
	}, []status.Event{{Seq: 1, Time: pageTime, Kind: status.EventLinkUp, Host: "krang", Text: "link to krang is up, over quic to 10.0.0.1:8076"}}},
	{"bad", []pageMirror{
		{"krang", "imu", "well"}, {"krang", "joints", "well"}, {"krang", "legs", "no such channel"}, {"krang", "arm-left-goal", "another writes into it"},
		{"atlas", "camera-front", "thin link"}, {"dock", "scan", "publisher stopped, deadline"}, {"mule", "imu", "silent link"}, {"hubo", "state", "never seen"},
		{"lab-7", "imu", "other key"}, {"remote", "goal", "lossy link, in time at this moment"},
	}, []status.Event{
		{Seq: 1, Time: pageTime, Kind: status.EventLinkUp, Host: "krang", Text: "link to krang is up, over quic to 10.0.0.1:8076"},
		{Seq: 2, Time: pageTime.Add(time.Minute), Kind: status.EventMirrorStale, Host: "dock", Channel: "scan", Mirror: "dock.scan", Text: "no frame for 1.2 s, its deadline is 1 s"},
	}},
}

func (m pageMirror) of() problem {
	return problems[slices.IndexFunc(problems, func(x problem) bool { return x.what == m.problem })]
}

// renamed returns s, a report about krang/imu, as a report about the host and channel of m.
func (m pageMirror) renamed(s status.Report) status.Report {
	word := func(text string) string { return strings.ReplaceAll(text, "krang", m.host) }
	s.Mirrors, s.Links, s.Peers = slices.Clone(s.Mirrors), slices.Clone(s.Links), slices.Clone(s.Peers)
	for i := range s.Mirrors {
		x := &s.Mirrors[i]
		x.Host, x.Channel, x.Name, x.Reason = m.host, m.channel, m.host+"."+m.channel, word(x.Reason)
	}
	for i := range s.Links {
		s.Links[i].Peer, s.Links[i].Node = m.host, m.host
	}
	for i := range s.Peers {
		s.Peers[i].Host, s.Peers[i].Node = m.host, m.host
	}
	return s
}

// samples returns two statuses of the state, as if two seconds apart.
func (p pageState) samples() (list [2]api.StatusReply) {
	goal := status.Subscription{Channel: "goal", Peer: "krang", FrameCounters: ledger.FrameCounters{Offered: 500, Delivered: 500}, QoS: rule.QoS{Budget: rule.DefaultBudget}}
	for i, frames := range []uint64{0, 100} {
		s := &list[i]
		s.Version, s.PID, s.Network, s.Listen = "0.1.0", 1, "f5d31653", "udp 8076"
		s.Host, s.Node, s.UptimeS, s.Pushes, s.Problems = "planner", "0a1b2c3d4e5f", 58+2*float64(i), []status.Push{}, []diagnose.Problem{}
		s.Peers, s.Links = []status.Peer{}, []status.Link{}
		goal.Offered, goal.Delivered = goal.Offered+frames, goal.Delivered+frames
		s.Exports = []status.Subscription{goal}
	}
	around := map[string]diagnose.Surroundings{}
	for _, m := range p.mirrors {
		x := m.of()
		pc, _ := x.ends()
		before, after := m.renamed(pc.Before), m.renamed(pc.After)
		for i, r := range []status.Report{m.renamed(pc.After), after} {
			s := &list[i]
			if i == 0 { // the first sample differs from the second only by its counters
				r.Mirrors[0].FrameCounters = before.Mirrors[0].FrameCounters
				for j := range r.Links {
					r.Links[j].Traffic, r.Links[j].Inbound = before.Links[j].Traffic, before.Links[j].Inbound
				}
			}
			s.Mirrors, s.Peers = append(s.Mirrors, r.Mirrors...), append(s.Peers, r.Peers...)
			if x.unlinked {
				around[m.host] = x.around
			} else if _, known := diagnose.LinkOf(s.Report, m.host); !known {
				s.Links = append(s.Links, r.Links...)
			}
		}
	}
	for i := range list {
		h := diagnose.Host{Before: list[0].Report, After: list[i].Report, Apart: 2 * time.Second * time.Duration(i), Around: around}
		list[i].Problems = diagnose.Problems(h)
	}
	return list
}

// ages returns the history of the mirrors, as the feed sends it.
func (p pageState) ages(s api.StatusReply) map[string]any {
	all := map[string]any{}
	for _, m := range s.Mirrors {
		var mean, peak []any
		for i := range 60 {
			if m.Age == nil {
				mean, peak = append(mean, nil), append(peak, nil)
				continue
			}
			mean, peak = append(mean, m.Age.Window.MeanMs*(1+0.1*float64(i%7))), append(peak, m.Age.Window.P99Ms*(1+0.1*float64(i%5)))
		}
		all[m.Name] = map[string]any{"mean_ms": mean, "peak_ms": peak, "state": strings.Repeat(m.State.String()[:1], 60)}
	}
	return all
}

// why returns the diagnosis of a mirror.
func (p pageState) why(name string) (r api.WhyReport) {
	for _, m := range p.mirrors {
		if m.host+"."+m.channel == name {
			pc, _ := m.of().ends()
			pc.Host, pc.Channel, pc.Before, pc.After = m.host, m.channel, m.renamed(pc.Before), m.renamed(pc.After)
			list := diagnose.Findings(pc)
			r.Finding, r.Notes = list[0], append([]diagnose.Finding{}, list[1:]...)
		}
	}
	return r
}

// servePage serves the page with a feed. The feed sends the first sample at once, and the second one when the test sends to next.
func servePage(t *testing.T, p pageState, next chan struct{}) (origin string) {
	samples := p.samples()
	mux := http.NewServeMux()
	mux.Handle("GET /", page.Handler())
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		send := func(event string, data any) {
			text, err := json.Marshal(data)
			if err != nil {
				t.Error(err)
			}
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, text)
			_ = http.NewResponseController(w).Flush()
		}
		send("ages", p.ages(samples[0]))
		send("events", p.events)
		send("status", samples[0])
		beat := time.NewTicker(time.Second)
		defer beat.Stop()
		for {
			select {
			case <-next:
				send("status", samples[1])
			case <-beat.C:
				send("events", []status.Event{})
			case <-r.Context().Done():
				return
			}
		}
	})
	mux.HandleFunc("GET /why", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(p.why(r.URL.Query().Get("of")))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL + "/"
}

// pageLayoutJS is a JavaScript expression that checks that nothing is outside the window and no texts overlap. It
// returns the problems, "" if there are none.
const pageLayoutJS = `(() => {
	const bad = [], box = (e) => e.getBoundingClientRect();
	const shown = [...document.querySelectorAll("body *")].filter((e) => e.checkVisibility({visibilityProperty: true}) && !e.closest("head") && e.getClientRects().length);
	for (const e of shown) if (box(e).right > innerWidth + 0.5 || box(e).left < -0.5) bad.push(e.tagName + " " + e.textContent.slice(0, 30) + " reaches from " + box(e).left + " to " + box(e).right + " px");
	const inside = document.querySelector("dialog[open]") ?? document;
	const texts = shown.filter((e) => inside.contains(e) && !e.children.length && e.textContent.trim() && !/^(wbr|title|option|i)$/i.test(e.tagName) && !e.closest("header"));
	const all = texts.flatMap((e) => [...e.getClientRects()].map((r) => [e, r]));
	for (const [i, [e, a]] of all.entries()) for (const [f, b] of all.slice(0, i)) {
		const x = Math.min(a.right, b.right) - Math.max(a.left, b.left), y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
		if (e != f && x > 2 && y > 4) bad.push(e.textContent + " overlaps " + f.textContent);
	}
	return bad.join("; ");
})()`

// requests returns how many requested URLs contain text.
func (b *browser) requests(text string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, url := range b.requestedURLs {
		if strings.Contains(url, text) {
			n++
		}
	}
	return n
}

// TestPageTextOfEachState compares the text of the page with golden files, at the width of a desktop and of a phone: at
// the first sample, at the second one, and with the diagnosis of the first mirror. With ACHBRIDGE_SHOTS=DIR it saves
// screenshots in DIR.
func TestPageTextOfEachState(t *testing.T) {
	b := newBrowser(t)
	call(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "UTC"})
	for _, p := range pageStates {
		for _, width := range []int64{1280, 390} {
			t.Run(fmt.Sprintf("%s at %d px", p.name, width), func(t *testing.T) {
				b.t = t
				next := make(chan struct{})
				origin := servePage(t, p, next)
				do(b, chromedp.EmulateViewport(width, 900))
				do(b, chromedp.Navigate(origin))
				b.wait(`document.querySelector("#line").innerText == "live"`)
				var text strings.Builder
				take := func(what string) {
					if bad := valueOf[string](b, pageLayoutJS); bad != "" {
						t.Errorf("%s: %s", what, bad)
					}
					fmt.Fprintf(&text, "== %s\n%s\n", what, valueOf[string](b, `(document.querySelector("dialog[open]") ?? document.body).innerText`))
					if dir := os.Getenv("ACHBRIDGE_SHOTS"); dir != "" {
						time.Sleep(time.Second) // until transitions have ended
						path := filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", p.name, width, strings.ReplaceAll(what, " ", "-")))
						if err := os.WriteFile(path, do(b, chromedp.FullScreenshot(100)), 0o644); err != nil {
							t.Fatal(err)
						}
					}
				}
				take("first sample")
				next <- struct{}{}
				b.wait(`document.querySelector("#about").dataset.uptime == "60"`)
				take("second sample")
				valueOf[any](b, `document.querySelector(".grid button").click()`)
				b.wait(`document.querySelector("dialog .verdict") != null`)
				take("diagnosis")
				b.clean(origin)
				if n := b.requests("/why?"); n != 1 {
					t.Errorf("one click made %d requests for a diagnosis, want 1", n)
				}
				golden(t, fmt.Sprintf("testdata/page/%s_%d.golden", p.name, width), []byte(text.String()))
				do(b, chromedp.Navigate("about:blank")) // closes the feed, so that the server can end
				b.requestedURLs, b.problems = nil, nil
			})
		}
	}
}

// tryRates gives the page's model five statuses. A mirror is new in the second one; its counters restart in the fourth. The rates must
// be those between two statuses, or unknown.
func tryRates(t *testing.T, b *browser) {
	got := valueOf[string](b, `(() => {
		const m = new parts.Model(), shown = [];
		for (const [i, offered] of [null, 100, 300, 10, 60].entries()) {
			const mirror = {mirrored_as: "a", channel: "a", host: "h", health: "live", age_ms: null, period_ms: null, qos: {budget_ms: 100}, frames: {offered, delivered: offered, late_kept: 0, lost: 0}};
			m.takes({uptime_s: 10 + 2 * i, pid: 1, peers: [], links: [], exports: [], mirrors: offered === null ? [] : [mirror]});
			shown.push(m.mirrors().map((x) => parts.hertz(x.rates.arrived) + " " + parts.rate(x.rates.lost)).join());
		}
		return shown.join(", ");
	})()`)
	if want := ", – Hz –, 100 Hz 0/s, – Hz –, 25 Hz 0/s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// tryFixes gives the page's model a problem of two mirrors. If the fix names one of them, only that mirror shows it.
func tryFixes(t *testing.T, b *browser) {
	for fix, want := range map[string]string{
		"check the cable": "check the cable | check the cable | ", "end what uses krang.imu": "end what uses krang.imu |  | ", "on krang: start imu": "on krang: start imu |  | ",
	} {
		got := valueOf[string](b, fmt.Sprintf(`(() => {
			const m = new parts.Model(), mirror = (host, channel, mirrored_as) => ({host, channel, mirrored_as, health: "late", age_ms: null, period_ms: null, qos: {budget_ms: 100}, frames: {}});
			m.takes({uptime_s: 1, pid: 1, peers: [], links: [], exports: [], mirrors: [mirror("krang", "imu", "krang.imu"), mirror("krang", "legs", "legs"), mirror("dock", "scan", "goal")],
				troubles: [{host: "krang", channels: ["krang.imu", "legs"], cure: %q}, {host: "krang", channels: ["goal"], cure: "of our channel goal, that krang mirrors"}]});
			return m.mirrors().map((x) => x.fix).join(" | ");
		})()`, fix))
		if got != want {
			t.Errorf("fix %q: got %q, want %q", fix, got, want)
		}
	}
}
