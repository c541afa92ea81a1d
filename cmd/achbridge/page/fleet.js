// The fleet as a picture: this host, the others, and what flows on their links.

import { bits, lines, millis, percent } from "./text.js";

const most = 16; // hosts that are drawn unless all are asked for
const box = { w: 144, line: 17, letters: 15 };
const words = 165, more = 50; // pixels that what is said of a link takes, and what it takes with "round trip"

export class Fleet {
  all = false;
  shape = "";

  constructor(svg, more) {
    this.svg = svg;
    this.more = more;
    more.addEventListener("click", () => {
      this.all = !this.all;
      this.show(...this.last);
    });
  }

  show(own, hosts, mine) {
    this.last = [own, hosts, mine];
    const shown = this.all ? hosts : hosts.slice(0, most);
    this.more.hidden = hosts.length <= most;
    this.more.textContent = this.all ? "show fewer" : `show all ${hosts.length} hosts`;
    const around = this.svg.parentElement, style = getComputedStyle(around);
    const width = Math.max(300, around.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
    const shape = [width, own, ...shown.map((h) => h.name)].join("\0");
    if (shape !== this.shape) this.lay(width, own, shown);
    this.shape = shape;
    for (const h of shown) this.tell(this.nodes.get(h.name), h);
    this.hub.note.textContent = mine;
    this.svg.setAttribute("aria-label", `${own} and ${hosts.length} other hosts`);
  }

  // lay makes the picture: with room, the others beside this host, many of them on both
  // sides of it, else one below the other.
  lay(width, own, hosts) {
    const most = Math.max(...[own, ...hosts.map((h) => h.name)].map((n) => lines(n, box.letters).length));
    box.h = 41 + most * box.line;
    const wide = width >= 560, sides = width >= 760 && hosts.length > 3 ? 2 : 1, row = box.h + (wide ? 22 : 28);
    const rows = Math.ceil(hosts.length / sides);
    this.words = wide && (width - (sides + 1) * box.w) / sides > words + more + 30 ? words + more : words;
    const height = wide ? Math.max(box.h + 24, rows * row) : box.h + 14 + rows * row;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", height);
    this.svg.replaceChildren();
    this.nodes = new Map();
    const hubAt = { x: sides === 2 ? (width - box.w) / 2 : 1, y: wide ? (height - box.h) / 2 : 1 };
    hosts.forEach((h, i) => {
      const right = i % sides === sides - 1, there = Math.ceil((hosts.length - (i % sides)) / sides);
      const above = wide ? (height - there * row) / 2 : box.h + 14;
      const y = above + Math.floor(i / sides) * row + (row - box.h) / 2;
      const at = { x: right ? width - box.w - 1 : 1, y };
      this.nodes.set(h.name, this.link(hubAt, at, { wide, right }));
      this.host(this.nodes.get(h.name), at, h.name);
    });
    this.hub = {};
    this.host(this.hub, hubAt, own).classList.add("own");
  }

  // link draws the way between two boxes: what comes here above what goes there.
  link(hub, at, { wide, right }) {
    const from = wide ? { x: right ? hub.x + box.w : hub.x, y: hub.y + box.h / 2 } : { x: 22, y: hub.y + box.h };
    const to = { x: right ? at.x : at.x + box.w, y: at.y + box.h / 2 };
    const near = to.x + (right ? -1 : 1) * Math.min(this.words, Math.abs(to.x - from.x) - 18), bend = (from.x + near) / 2;
    const way = (d) => wide
      ? `M${from.x} ${from.y + d}C${bend} ${from.y + d} ${bend} ${to.y + d} ${near} ${to.y + d}H${to.x}`
      : `M${from.x + d} ${from.y}V${to.y - 14}Q${from.x + d} ${to.y - d} ${from.x + 14} ${to.y - d}H${to.x}`;
    const g = el("g", { class: "link" }, this.svg);
    const node = { g, out: el("path", { d: way(3.5), class: "way out" }, g), in: el("path", { d: way(-3.5), class: "way in" }, g) };
    const x = wide ? (right ? at.x - 10 : at.x + box.w + 10) : at.x - 8;
    const anchor = right ? "end" : "start";
    node.above = el("text", { x, y: to.y - 11, "text-anchor": anchor }, g);
    node.below = el("text", { x, y: to.y + 20, "text-anchor": anchor }, g);
    return node;
  }

  host(node, at, name) {
    const g = el("g", { class: "host" }, this.svg);
    el("rect", { x: at.x, y: at.y, width: box.w, height: box.h, rx: 9 }, g);
    node.title = el("title", {}, g);
    const parts = lines(name, box.letters);
    parts.forEach((part, i) => (el("text", { x: at.x + 12, y: at.y + 26 + i * box.line, class: "name" }, g).textContent = part));
    node.title.textContent = name;
    node.note = el("text", { x: at.x + 12, y: at.y + 28 + parts.length * box.line }, g);
    node.badge = el("g", { class: "badge", transform: `translate(${at.x + box.w - 8} ${at.y})` }, g);
    node.host = g;
    return g;
  }

  // mark writes the worst state of a host's channels on the edge of its box.
  mark(g, text) {
    if (g.textContent === text) return;
    g.replaceChildren();
    if (!text) return;
    const w = 14 + 6.4 * text.length;
    el("rect", { x: -w, y: -9, width: w, height: 18, rx: 9 }, g);
    el("text", { x: -w / 2, y: 4, "text-anchor": "middle" }, g).textContent = text;
  }

  tell(node, h) {
    const l = h.link, up = h.state === "linked";
    node.g.setAttribute("class", "link " + h.state);
    const worst = h.state === "silent" && !["refused", "stale"].includes(h.worst) ? "silent" : h.worst === "live" && h.state !== "linked" ? h.state : h.worst;
    node.host.setAttribute("class", "host " + worst.replace(" ", "-"));
    this.mark(node.badge, ["live", "linked"].includes(worst) ? "" : worst);
    node.in.classList.toggle("flows", up && h.rateIn > 0);
    node.out.classList.toggle("flows", up && h.rateOut > 0);
    node.above.textContent = up ? `${this.words > words ? "round trip " : ""}${millis(l.rtt_ms)}${lossOf(h) === null ? "" : ` · ${percent(lossOf(h))} lost`}` : h.state === "silent" ? `silent for ${l.silent_s.toFixed(0)} s` : h.state === "unknown" ? "no link" : h.state;
    node.below.textContent = !up ? "" : h.bitsIn === null ? "– bit/s" : [h.bitsIn && "↓ " + bits(h.bitsIn), h.bitsOut && "↑ " + bits(h.bitsOut)].filter(Boolean).join("  ") || "no frames";
    const carried = [h.mirrors && `↓ ${h.live === h.mirrors ? h.live : h.live + " of " + h.mirrors}`, h.exports && `↑ ${h.exports}`].filter(Boolean);
    node.note.textContent = carried.length ? carried.join("  ") + " ch." : "no channels";
    node.title.textContent = [
      h.name,
      h.mirrors && `${h.live} of ${h.mirrors} channels mirrored here are live`,
      h.exports && `${h.exports} of our channels mirrored there`,
      l && `over ${l.transport}, ${l.addr}`,
      l && `round trip ${millis(l.rtt_ms)}, clock ± ${millis(l.clock_uncertainty_ms)}`,
      l && lossOf(h) !== null && `lost of what comes ${percent(h.lossIn)}, of what goes ${percent(h.lossOut)}`,
      l && l.path_mbit !== null && `carried ${bits(l.path_mbit * 1e6)} when it was last full`,
      h.error,
    ].filter(Boolean).join("\n");
  }
}

const lossOf = (h) => (h.lossIn === null && h.lossOut === null ? null : Math.max(h.lossIn, h.lossOut));

function el(tag, attributes, parent) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  parent.append(e);
  return e;
}
