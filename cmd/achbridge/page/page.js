// The page: what the daemon tells, and where it is shown. Names of hosts and channels
// are only ever text.

import { connect } from "./line.js";
import { Model, drops, mark, overAt, pick, stateOf, states, tagOf, used } from "./model.js";
import { Fleet } from "./fleet.js";
import { Detail } from "./detail.js";
import { draw } from "./plot.js";
import { breakable, count, duration, glued, hertz, millis, percent, rate } from "./text.js";

const $ = (selector) => document.querySelector(selector);
const model = new Model();
const fleet = new Fleet($("#fleet svg"), $("#allpeers"));
const detail = new Detail($("#detail"), model);
const cards = new Map(); // of mirrors by name
const onScreen = new IntersectionObserver((list) => list.forEach((e) => {
  e.target.seen = e.isIntersecting;
  if (e.isIntersecting) paint(e.target);
}), { rootMargin: "200px" });
let order = "";

connect($("#line"), {
  ages(all, afresh) {
    model.ages(all, afresh, performance.now());
    for (const { box } of cards.values()) if (box.seen) paint(box);
    detail.paint();
  },
  status(s) {
    model.takes(s);
    show();
  },
  events(list, afresh) {
    model.happened(list, afresh);
    showEvents();
  },
});

$("#cards").addEventListener("click", () => {
  const on = $("#mirrors").classList.toggle("cards");
  $("#cards").textContent = on ? "show a list" : "show plots";
  cards.forEach(({ box }) => paint(box));
});
$("#filter").addEventListener("input", show);
$("#sort").addEventListener("change", show);
$("#allevents").addEventListener("click", () => showEvents($("#events").classList.toggle("all")));
$("#allsent").addEventListener("click", () => ($("#sent").classList.toggle("all"), show()));
addEventListener("resize", () => (show(), detail.paint()));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => cards.forEach(({ box }) => paint(box)));

function show() {
  const s = model.status;
  if (!s) return;
  const mirrors = model.mirrors();
  const number = (state) => mirrors.filter((x) => stateOf(x.m) === state).length, troubled = mirrors.length - number("live");
  document.title = (troubled ? `(${troubled}) ` : "") + s.host + " · achbridge";
  $("#host").textContent = s.host;
  $("#summary").replaceChildren(...states.filter(number).map((h) => text("span", "tag " + tagOf(h), `${number(h)} ${h}`)));
  $("#about").dataset.uptime = s.uptime_s; // of what is shown, for tests
  $("#about").textContent = `achbridge ${s.version}, up ${duration(s.uptime_s)} · node ${s.node.slice(0, 8)} · network ${s.network} · listens on ${s.listen}`;
  const hosts = model.hosts();
  $(".top").classList.toggle("few", hosts.length <= fewHosts);
  fleet.show(s.host, hosts, s.mirrors.length || s.exports.length ? `↓ ${s.mirrors.length}  ↑ ${s.exports.length} ch.` : "no channels");
  showMirrors(mirrors);
  showSent();
  detail.show();
  showTrouble(s.troubles);
}

// showTrouble tells what is most wrong, with its fix, and on demand everything.
function showTrouble(list) {
  const p = $("#trouble");
  p.hidden = list.length === 0;
  if (!list.length) return;
  const all = list.map((t) => `${t.cause}: ${t.text}${t.cure ? ". Fix: " + t.cure : ""}`);
  if (p.told === all.join("\n")) return; // what somebody may be reading stays
  p.told = all.join("\n");
  const { cause, text: what, cure } = list[0], more = list.length > 1 ? ` (and ${list.length - 1} more)` : "";
  $("#trouble summary").replaceChildren(glued(`${cause}: ${what}`) + more, text("p", "fix", cure ? glued("Fix: " + cure) : ""));
  $("#trouble ol").replaceChildren(...all.map((t) => text("li", "", glued(t))));
}

function showMirrors(mirrors) {
  const grid = $("#mirrors .grid"), empty = $("#mirrors > .empty");
  const list = pick(mirrors, $("#filter").value, $("#sort").value);
  $("#count").textContent = list.length === mirrors.length ? mirrors.length : `${list.length} of ${mirrors.length}`;
  grid.classList.toggle("dense", list.length > 60);
  empty.hidden = list.length > 0;
  empty.textContent = mirrors.length ? "No mirror has all of these words." : "This host mirrors nothing. See: achbridge ls, achbridge mirror --help";
  const names = list.map((x) => x.name);
  for (const [name, { box }] of cards) {
    if (names.includes(name)) continue;
    onScreen.unobserve(box);
    box.remove();
    cards.delete(name);
  }
  for (const x of list) tell(cards.get(x.name) ?? card(x.name), x);
  if (order !== names.join("\0") || grid.children.length !== names.length) {
    order = names.join("\0");
    grid.append(...names.map((name) => cards.get(name).box));
  }
}

function card(name) {
  const box = document.createElement("li"), button = document.createElement("button");
  const c = { box, button, name: named("span", name), tag: text("span", "tag", ""), plot: text("span", "plot", ""), fix: text("span", "fix", ""), age: text("span", "", ""), p99: text("span", "", ""), rates: text("span", "rates", "") };
  const figures = text("span", "figures", "");
  figures.append(c.age, c.p99);
  c.canvas = document.createElement("canvas");
  c.plot.append(c.canvas, text("span", "none", "age not known"));
  button.append(c.name, c.tag, c.plot, figures, c.rates, c.fix);
  button.addEventListener("click", () => detail.open(name));
  button.title = name;
  box.append(button);
  box.mirror = name;
  cards.set(name, c);
  onScreen.observe(box);
  return c;
}

function tell(c, { m, rates, over, fix }) {
  const w = m.age?.window;
  put(c.box, "className", m.health + (over ? " over" : ""));
  put(c.tag, "textContent", [m.health === "live" && !over ? "" : stateOf(m), mark(m)].filter(Boolean).join(" "));
  put(c.tag, "className", "tag " + tagOf(stateOf(m)));
  put(c.age, "textContent", m.age_ms !== null ? "age " + millis(m.age_ms) : m.since_arrival_ms === undefined ? "age not known" : "came " + millis(m.since_arrival_ms) + " ago");
  put(c.p99, "textContent", w ? "p99 " + millis(w.p99_ms) : "");
  put(c.rates, "textContent", glued(m.reason ?? "") || [rateOf(m, rates), over && "budget used: " + percent(used(m)), ...dropsText(rates)].filter(Boolean).join(" · "));
  put(c.fix, "textContent", fix && "Fix: " + glued(fix));
  c.budget = overAt(m);
}

// rateOf returns the rate of a mirror's frames, or their period if that is too long for a rate.
function rateOf(m, rates) {
  return rates.arrived === 0 && m.period_ms > 5000 ? "a frame every " + millis(m.period_ms) : hertz(rates.arrived);
}

function dropsText(rates) {
  return drops.filter((f) => rates[f.key] > 0).sort((a, b) => rates[b.key] - rates[a.key]).map((f) => `${f.text}\u00a0${rate(rates[f.key])}`);
}

function paint(box) {
  const c = cards.get(box.mirror);
  if (c) c.plot.classList.toggle("unknown", !draw(c.canvas, model.tracks.get(box.mirror), c.budget));
}

const someSent = 20, fewHosts = 3;

function showSent() {
  const list = model.exports().sort((a, b) => dropped(b.rates) - dropped(a.rates)), all = $("#sent").classList.contains("all");
  $("#sent").hidden = list.length === 0;
  $("#sentcount").textContent = list.length;
  $("#allsent").hidden = list.length <= someSent;
  $("#allsent").textContent = all ? "show fewer" : `show all ${list.length}`;
  const body = $("#sent tbody"), shown = all ? list : list.slice(0, someSent);
  while (body.rows.length > shown.length) body.deleteRow(-1);
  shown.forEach(({ e, rates }, i) => {
    const row = body.rows[i] ?? body.insertRow(), cells = [e.channel, e.peer, hertz(rates.offered), count(e.frames.delivered + e.frames.late_kept), e.reason ?? (rates.offered === null ? "–" : dropsText(rates).join(", ") || "0/s")];
    cells.forEach((t, j) => {
      const cell = row.cells[j] ?? row.insertCell();
      if (j === 2 || j === 3) cell.className = "n";
      if (cell.textContent !== t) cell.replaceChildren(...(j < 2 ? breakable(t) : [t]));
    });
  });
}

const dropped = (rates) => Math.round(Math.log2(1 + rates.lost + rates.late + rates.expired + rates.refused + rates.overflow));

function showEvents() {
  const some = 12, all = $("#events").classList.contains("all"), list = model.events.slice(all ? -200 : -some).reverse();
  $("#allevents").hidden = model.events.length <= some;
  $("#allevents").textContent = all ? "show fewer" : `show all ${model.events.length}`;
  $("#events ol").replaceChildren(...(list.length ? list.map(line) : [text("li", "empty", "Nothing has happened since this daemon began.")]));
}

function line(e) {
  const li = document.createElement("li"), at = new Date(e.time), when = text("time", "", at.toLocaleTimeString("en-GB"));
  when.dateTime = e.time;
  when.title = at.toLocaleString("en-GB");
  const about = e.mirror || (e.channel ? `${e.host}/${e.channel}` : e.host);
  li.append(when, text("b", e.kind, e.kind.replaceAll("_", " ")), about ? named("span", about) : "", text("span", "", glued(e.text)));
  return li;
}

// named is a name that breaks between its parts where it is too long.
function named(tag, name) {
  const e = text(tag, "name", "");
  e.append(...breakable(name));
  return e;
}

function text(tag, className, content) {
  const e = document.createElement(tag);
  e.className = className;
  e.textContent = content;
  return e;
}

// put changes what is otherwise: the browser need not lay out what stays.
function put(e, key, value) {
  if (e[key] !== String(value)) e[key] = value;
}
