package main

import (
	"fmt"
	"math"
	"testing"

	"github.com/chromedp/chromedp"
)

// pageSnapshotJS is a JavaScript expression that checks the page at any width. It returns the problems, "" if there are none.
const pageSnapshotJS = `(() => {
	const all = (s) => [...document.querySelectorAll(s)], shown = (e) => e.getClientRects().length > 0;
	const bad = all("main *").filter((e) => !e.children.length && shown(e) && e.textContent.includes("…")).map((e) => "cut: " + e.textContent);
	const rows = {};
	for (const e of all(".grid button")) (rows[Math.round(e.getBoundingClientRect().top)] ??= []).push(Math.round(e.getBoundingClientRect().height));
	for (const r of Object.values(rows)) if (Math.max(...r) - Math.min(...r) > 1) bad.push("cards of one row are " + r + " pixels high");
	for (const e of all(".grid .name")) if (/[._-]./.test(e.textContent) && !e.querySelector("wbr")) bad.push(e.textContent + " breaks anywhere");
	return bad.join("; ");
})()`

// listFirst is a JavaScript expression that checks the page on a phone. It returns the problems, "" if there are none.
const listFirst = `(() => {
	const bad = [], at = (s) => document.querySelector(s).getBoundingClientRect();
	if (at("#mirrors").top > at("#fleet").top) bad.push("the fleet is above the mirrors");
	const high = at(".grid button").height;
	if (document.querySelector(".grid canvas").getClientRects().length) bad.push("plots are shown unasked");
	document.querySelector("#cards").click();
	if (at(".grid button").height < high + 60) bad.push("no plots when asked");
	document.querySelector("#cards").click();
	return bad.join("; ");
})()`

// TestPageInBrowser tests the JavaScript modules of the page and the page itself in one browser.
func TestPageInBrowser(t *testing.T) {
	b := newBrowser(t)
	d := daemonFor(t, newKeyFile(t), "planner", "--mirror", "a-robot-with_a.long-name_for.a-host-of_our-lab/legs", "--mirror", "atlas/imu")
	do(b, chromedp.EmulateViewport(360, 740))
	do(b, chromedp.Navigate("http://"+d.address+"/"))
	b.wait(`document.querySelector("#line").innerText == "live"`)
	valueOf[any](b, `Promise.all(["/model.js", "/fleet.js", "/text.js", "/plot.js"].map((p) => import(p))).then((all) => (window.parts = Object.assign({}, ...all))), 0`)
	b.wait(`"parts" in window`)
	for _, c := range []struct {
		name string
		try  func(*testing.T, *browser)
	}{
		{"it says all of a trouble", trySayingATrouble},
		{"plots are not half empty", tryPlots},
		{"hosts are marked as their cards are", tryMarks},
		{"the share of the budget is that of Go", tryShares},
		{"it agrees on every trouble", tryProblems},
		{"rates are unknown before the second sample", tryRates},
		{"a fix is shown for the channel that it is for", tryFixes},
	} {
		t.Run(c.name, func(t *testing.T) { b.t = t; c.try(t, b) })
	}
	b.t = t
}

// tryPlots tests the scale of the plots with small and large ages.
func tryPlots(t *testing.T, b *browser) {
	for _, c := range []struct{ mean, peak, budget float64 }{
		{2, 5, 100}, {2, 5, 5}, {2, 40, 100}, {16, 130, 145}, {9.9, 9.95, 1000}, {300, 20_000, 100}, {0.02, 0.05, 50}, {210, 220, 1},
	} {
		for _, n := range []int{1, 31, 66, 121, 180} {
			got := valueOf[struct {
				Low, High, Span float64
				Fits            bool
			}](b, fmt.Sprintf(`parts.scale({mean: Array(%d).fill(%g), peak: Array(%[1]d).fill(%[3]g)}, %g)`, n, c.mean, c.peak, c.budget))
			empty := math.Log(got.High/c.peak) / math.Log(got.High/got.Low)
			if empty > 0.5 || got.Low > c.mean || got.High < c.peak {
				t.Errorf("ages %v to %v, budget %v: the axis goes from %v to %v, %.0f %% of it empty", c.mean, c.peak, c.budget, got.Low, got.High, 100*empty)
			}
			if n > 5 && float64(n) < got.Span/2 || float64(n) > got.Span {
				t.Errorf("%d seconds on an axis of %v", n, got.Span)
			}
		}
	}
}

// tryMarks checks that a host is marked with the worst health of its channels, and that red hosts are first in the list.
func tryMarks(t *testing.T, b *browser) {
	got := valueOf[string](b, `(() => {
		const m = new parts.Model(), mirror = (host, health, age) => ({host, channel: health, mirrored_as: host + "." + health, health, age_ms: age, period_ms: 1, qos: {budget_ms: 10}, frames: {}});
		const link = (peer, state) => ({node: peer, peer, state, silent_s: 3, rtt_ms: 1, path_mbit: null, traffic: {}, transport: "quic"});
		m.takes({uptime_s: 1, peers: [], exports: [], links: [link("a-silent", "silent"), link("b-well", "up"), link("c-over", "up"), link("d-late", "up"), link("e-stale", "up")],
			mirrors: [mirror("a-silent", "live", 1), mirror("b-well", "live", 1), mirror("c-over", "live", 99), mirror("d-late", "late", 1), mirror("e-stale", "stale", 1), mirror("e-stale", "late", 1), mirror("f-missing", "waiting", 1)]});
		const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), fleet = new parts.Fleet(svg, document.createElement("button"));
		document.body.append(svg);
		fleet.show("me", m.hosts(), "");
		return m.hosts().map((h) => h.name + "=" + fleet.nodes.get(h.name).badge.textContent).join(" ") + ", f-missing has " + fleet.nodes.get("f-missing").above.textContent;
	})()`)
	if want := "e-stale=stale a-silent=silent f-missing=waiting d-late=late c-over=over budget b-well=, f-missing has no link"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := valueOf[string](b, `parts.glued("no frame for 2 min 10 s, 5 s or 12 %: 3 mirrors, 20 Mbit/s, 4 hosts")`), "no frame for 2\u00a0min 10\u00a0s, 5\u00a0s or 12\u00a0%: 3 mirrors, 20\u00a0Mbit/s, 4 hosts"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := valueOf[string](b, `[999600, 999.6e6, 18.04e6].map(parts.bits).concat([9.996, 99.96, 9999.7].map(parts.millis)).join(", ")`), "1 Mbit/s, 1 Gbit/s, 18 Mbit/s, 10.0 ms, 100 ms, 10 s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !valueOf[bool](b, `(() => {
		const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), div = document.createElement("div");
		div.style.width = "900px";
		div.append(svg);
		document.body.append(div);
		const fleet = new parts.Fleet(svg, document.createElement("button")), host = (name) => ({name, state: "linked", worst: "live", mirrors: 0, live: 0, exports: 0, link: {rtt_ms: 1, path_mbit: null}, lossIn: 0, lossOut: 0});
		fleet.show("me", ["a", "b", "c", "d"].map(host), "");
		const at = (n) => fleet.nodes.get(n).host.getBBox();
		return at("a").x < at("b").x && at("a").y == at("b").y && at("c").y > at("a").y;
	})()`) {
		t.Error("hosts are not in order from left to right and top to bottom")
	}
}

// trySayingATrouble opens the line that shows the first of several problems.
func trySayingATrouble(t *testing.T, b *browser) {
	b.wait(`document.querySelectorAll("#trouble li").length == 2`)
	b.wait(`document.querySelector("#trouble summary").innerText.includes("(and 1 more)")`)
	b.wait(`(document.querySelector("#trouble summary").click(), document.querySelector("#trouble").innerText.includes("Fix: "))`)
	b.wait(pageSnapshotJS + ` == ""`)
	if got := valueOf[string](b, listFirst); got != "" {
		t.Error(got)
	}
	if n := valueOf[int](b, `document.querySelectorAll("#fleet .legend i").length`); n != 4 {
		t.Errorf("legend of the links: got %d kinds, want 4", n)
	}
	if long := valueOf[bool](b, `[...document.querySelectorAll("#fleet text.name")].some((e) => e.getBBox().width > 128)`); long {
		t.Error("a host's name does not fit into its box")
	}
}
