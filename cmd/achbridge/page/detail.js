// One mirror, in full.

import { fates, mark, overAt, stateOf, tagOf } from "./model.js";
import { draw } from "./plot.js";
import { bits, breakable, count, duration, glued, hertz, millis, percent, rate } from "./text.js";

export class Detail {
  name = null;

  constructor(dialog, model) {
    this.dialog = dialog;
    this.model = model;
    dialog.addEventListener("close", () => (this.name = null));
    dialog.addEventListener("click", (e) => e.target === dialog && dialog.close()); // beside it
  }

  open(name) {
    this.name = name;
    this.dialog.showModal();
    this.show();
    this.paint();
    this.diagnose(name);
  }

  // diagnose asks the daemon once why the mirror is as it is, and shows the answer.
  async diagnose(name) {
    const box = this.part(".why"), mine = (this.asked = Symbol(name));
    box.replaceChildren(line("", "The daemon observes the channel for 2 s …"));
    const r = await fetch("why?of=" + encodeURIComponent(name), { cache: "no-store" }).then((r) => r.json()).catch((e) => ({ error: e.message }));
    if (this.asked !== mine) return; // another mirror has been opened
    if (r.error) return box.replaceChildren(line("", "No diagnosis: " + r.error));
    box.replaceChildren(
      line("verdict", `${r.cause}: ${r.text}`), ...(r.cure ? [line("fix", "Fix: " + r.cure)] : []), ...r.evidence.map((e) => line("", e)),
      ...r.notes.map((n) => line("", `also ${n.cause}: ${n.text}${n.cure ? ". Fix: " + n.cure : ""}`)),
    );
  }

  part(selector) { return this.dialog.querySelector(selector); }

  paint() {
    if (this.name && this.of) draw(this.part("canvas"), this.model.tracks.get(this.name), overAt(this.of));
  }

  show() {
    if (!this.name) return;
    const x = this.model.mirrors().find((x) => x.name === this.name);
    if (!x) return this.dialog.close(); // it is no more
    const { m, rates } = x, first = !this.of;
    this.of = m;
    this.part("h2").replaceChildren(...breakable(m.mirrored_as));
    this.part(".tag").className = "tag " + tagOf(stateOf(m));
    this.part(".tag").textContent = [stateOf(m), mark(m)].filter(Boolean).join(" ");
    this.ages(m);
    this.ledger(m, rates);
    this.facts(m, rates);
    if (first) this.paint();
  }

  ages(m) {
    const w = m.age?.window, t = m.age?.total;
    const both = (f) => [w ? f(w) : "–", t ? f(t) : "–"];
    fill(this.part(".ages"), ["age", "last 10 s", "in all"], [
      ["mean", ...both((a) => millis(a.mean_ms))],
      ["p50", ...both((a) => millis(a.p50_ms))],
      ["p99", ...both((a) => millis(a.p99_ms))],
      ["peak", ...both((a) => millis(a.peak_ms))],
      ["over budget", ...both((a) => percent(a.over_budget))],
      ["measured over", ...both((a) => duration(a.window_s))],
      ["clock ±", m.age ? millis(m.age.uncertainty_ms) : "–", ""],
      ["now", millis(m.age_ms), ""],
      ["next frame due for", m.due_ms === null ? "–" : millis(m.due_ms), ""],
    ]);
  }

  ledger(m, rates) {
    const rows = fates.map((f) => [f.text, rate(rates[f.key]), count(m.frames[f.key])]);
    fill(this.part(".ledger"), [m.one_sided ? "frames that came" : "frames", "now", "in all"], [
      ["offered", rate(rates.offered), count(m.frames.offered)], ...rows, ["in flight", "", count(m.frames.in_flight)],
    ]);
  }

  facts(m) {
    const q = m.qos, l = this.model.status.links.find((l) => l.peer === m.host);
    fill(this.part(".facts"), ["of", `${m.host}/${m.channel}`], [
      ["budget", millis(q.budget_ms)],
      m.period_ms !== null && ["a frame every", millis(m.period_ms)],
      q.deadline_ms && ["deadline", millis(q.deadline_ms)],
      q.max_rate_hz && ["max rate", hertz(q.max_rate_hz)],
      ["mode", q.mode], ["class", q.class], ["priority", String(q.priority)],
      m.frame_bytes && ["frame", count(m.frame_bytes) + " B"],
      m.stale_s && ["stale for", duration(m.stale_s)],
      m.unauthenticated && ["sender", "not proved: achd's protocol"],
      m.since_arrival_ms !== undefined && ["newest came", millis(m.since_arrival_ms) + " ago"],
      m.late_s && ["late for", duration(m.late_s)],
      l && ["link", `${l.transport}, ${l.state}`],
      l && ["round trip", millis(l.rtt_ms)],
      l && ["carries to here", l.from_peer?.path_mbit ? bits(l.from_peer.path_mbit * 1e6) : "never full"],
      l && ["clock offset", `${millis(l.clock_offset_ms)} ± ${millis(l.clock_uncertainty_ms)}`],
    ].filter(Boolean));
  }
}

function line(className, content) {
  const p = document.createElement("p");
  p.className = className;
  p.textContent = glued(content);
  return p;
}

// fill writes a table; the first column has headings.
function fill(table, head, rows) {
  const all = [head, ...rows];
  while (table.rows.length > all.length) table.deleteRow(-1);
  all.forEach((cells, i) => {
    const row = table.rows[i] ?? table.insertRow();
    while (row.cells.length > cells.length) row.deleteCell(-1);
    cells.forEach((text, j) => {
      const cell = row.cells[j] ?? row.appendChild(document.createElement(i === 0 || j === 0 ? "th" : "td"));
      if (cell.textContent !== text) cell.textContent = text;
    });
  });
}
