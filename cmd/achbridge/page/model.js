// What the daemon has told, and what follows from it. Nothing here touches the page.

export const past = 180; // seconds of ages that are kept
const looks = 11;        // statuses that are kept, about one a second: rates are over ten seconds

// What became of frames, in the order of a frame's way. Bad: somebody may want it otherwise.
export const fates = [
  { key: "delivered", text: "delivered" },
  { key: "late_kept", text: "delivered late", bad: true },
  { key: "superseded", text: "superseded" },
  { key: "rate_limited", text: "rate limited" },
  { key: "expired", text: "expired", bad: true },
  { key: "lost", text: "lost", bad: true },
  { key: "late", text: "late", bad: true },
  { key: "refused", text: "refused", bad: true },
  { key: "overflow", text: "overflow", bad: true },
];

export const drops = fates.filter((f) => f.key !== "delivered" && f.key !== "late_kept");

// How a mirror can be, the worst first: as Healths in bridge/status.
const healths = ["refused", "stale", "waiting", "late", "live"];

// What a card says of a mirror, the worst first: its health, or that it is live and over its budget at times.
export const states = [...healths.slice(0, -1), "over budget", "live"];
export const stateOf = (m) => (m.health === "live" && used(m) > 1 ? "over budget" : m.health);

// tagOf returns the class that colours a state.
export const tagOf = (state) => (state === "over budget" ? "late" : state);

// What stands beside the health of a mirror whose frames nothing proves, as diagnose.MarkOf has it.
export const mark = (m) => (m.unauthenticated ? "unauthenticated" : "");

export class Model {
  status = null;
  events = [];
  tracks = new Map(); // of mirrors by name: {mean, peak, state}, an entry for each second
  seen = [];          // statuses, newest last
  told = 0;           // when something was told last, by performance.now()

  // ages takes those of one second more, or all that are to be known.
  ages(all, afresh, now) {
    this.told = now;
    if (afresh) this.tracks = new Map();
    for (const name of this.tracks.keys()) if (!Object.hasOwn(all, name)) this.tracks.delete(name);
    for (const [name, a] of Object.entries(all)) {
      let t = this.tracks.get(name);
      if (!t) this.tracks.set(name, (t = { mean: [], peak: [], state: "" }));
      t.mean = t.mean.concat(a.mean_ms).slice(-past);
      t.peak = t.peak.concat(a.peak_ms).slice(-past);
      t.state = (t.state + a.state).slice(-past);
    }
  }

  happened(list, afresh) {
    this.events = (afresh ? list : this.events.concat(list)).slice(-200);
  }

  takes(s) {
    const last = this.seen.at(-1);
    s.troubles ??= [];
    if (last && (s.uptime_s < last.uptime_s || s.pid !== last.pid)) this.seen = []; // it was started anew
    else if (last && s.uptime_s === last.uptime_s) return;
    this.status = s;
    this.channels = new Map(s.mirrors.map((m) => [m.mirrored_as, m.channel]));
    this.seen.push({
      pid: s.pid, uptime_s: s.uptime_s,
      mirrors: new Map(s.mirrors.map((m) => [m.mirrored_as, m.frames])),
      exports: new Map(s.exports.map((e) => [e.peer + "\0" + e.channel, e.frames])),
      links: new Map(s.links.map((l) => [l.node, l.traffic])),
    });
    if (this.seen.length > looks) this.seen.shift();
  }

  // since returns what was added to the counters of a mirror, export or link, and in how many seconds; null before
  // their second sample. If the total went backwards, all counters began at zero.
  since(kind, key, now) {
    const total = kind === "links" ? "packets_sent" : "offered";
    let was = null, span = 0;
    for (const s of this.seen.slice(0, -1).reverse()) {
      const c = s[kind].get(key);
      if (!c || c[total] > (was ?? now)[total]) break;
      was = c;
      span = this.status.uptime_s - s.uptime_s;
    }
    return was && { span, added: (k) => Math.max(0, now[k] - was[k]) };
  }

  // rates returns the rates of frames per second, and null for all that are not known yet.
  rates(kind, key, now) {
    const s = this.since(kind, key, now), per = (k) => s && s.added(k) / s.span;
    const r = Object.fromEntries([...fates.map((f) => f.key), "offered"].map((k) => [k, per(k)]));
    return { ...r, arrived: s && r.delivered + r.late_kept };
  }

  mirrors() {
    return this.status.mirrors.map((m) => {
      const rates = this.rates("mirrors", m.mirrored_as, m.frames);
      return { m, name: m.mirrored_as, rates, over: used(m) > 1, fix: this.fix(m) };
    });
  }

  // fix returns the fix of the problem that affects a mirror. It returns "" if none is known, or if it names another
  // channel, since a problem has one fix for all its channels.
  fix(m) {
    const t = this.status.troubles.find((t) => t.channels.includes(m.mirrored_as) && (!t.host || t.host === m.host));
    const names = (other) => other !== m.mirrored_as && [other, this.channels.get(other) ?? other].some((n) => n !== m.channel && t.cure.includes(n));
    return !t?.cure || t.channels.some(names) ? "" : t.cure;
  }

  exports() {
    return this.status.exports.map((e) => ({ e, rates: this.rates("exports", e.peer + "\0" + e.channel, e.frames) }));
  }

  // hosts are those that are linked or known, or something is wanted of.
  hosts() {
    const s = this.status, hosts = new Map();
    const host = (name) => {
      if (!hosts.has(name)) hosts.set(name, { name, state: "unknown", mirrors: 0, live: 0, worst: "live", exports: 0, rateIn: 0, rateOut: 0 });
      return hosts.get(name);
    };
    for (const p of s.peers) {
      if (p.state === "linked") continue; // its link tells more
      Object.assign(host(p.host || p.addrs[0] || "?"), { state: p.state, error: p.error });
    }
    for (const l of s.links) {
      const t = this.since("links", l.node, l.traffic), d = (key) => (t ? t.added(key) : 0);
      Object.assign(host(l.peer), {
        link: l, state: l.state === "up" ? "linked" : l.state, error: "",
        lossOut: share(d("packets_lost"), d("packets_sent")),
        lossIn: share(d("packets_missed"), d("packets_received") + d("packets_missed")),
        bitsOut: t && (8 * d("sent_bytes")) / t.span,
        bitsIn: t && (8 * d("received_bytes")) / t.span,
      });
    }
    for (const { m, rates } of this.mirrors()) {
      const h = host(m.host);
      if (m.unauthenticated) h.state = "unauthenticated";
      h.mirrors++;
      h.live += m.health === "live";
      if (states.indexOf(stateOf(m)) < states.indexOf(h.worst)) h.worst = stateOf(m);
      h.rateIn += rates.arrived;
    }
    for (const { e, rates } of this.exports()) {
      const h = host(e.peer);
      h.exports++;
      h.rateOut += rates.arrived;
    }
    return [...hosts.values()].sort((a, b) => badness(a) - badness(b) || order(a.name, b.name));
  }
}

// badness orders hosts as their colours do: red, then amber, then those without a link, then all others.
function badness(h) {
  return Math.min(h.state === "silent" ? states.indexOf("waiting") : states.length, states.indexOf(h.worst) + (h.worst === "live" && h.state === "linked"));
}

// share returns part/whole, or null if the whole is not known.
function share(part, whole) {
  return whole > 0 ? part / whole : null;
}

// due is for how long the next frame has been due: its age less the time between two, as fresh.Due in the daemon.
export function due(age, period) {
  return Math.max(0, age - period);
}

// used is the share of its budget that a mirror uses: for how long its next frame had been due in 99 % of the last ten
// seconds, or is due now if that is longer; null: not known. As usedOf in due.go: testdata/due.json has values of both.
export function used(m) {
  if (m.period_ms === null || m.age_ms === null) return null;
  return due(Math.max(m.age_ms, m.age?.window?.p99_ms ?? 0), m.period_ms) / m.qos.budget_ms;
}

// overAt is the age at which a mirror goes over its budget.
export function overAt(m) {
  return m.qos.budget_ms + (m.period_ms ?? 0);
}

const compare = new Intl.Collator("en", { numeric: true }).compare;
export function order(a, b) { return compare(a, b) || (a < b ? -1 : a > b ? 1 : 0); }

// Ways to sort what mirrors() returns. The worst come in steps, so that they do not
// change places all the time.
const step = (v) => (v > 0 ? Math.floor(2 * Math.log2(v)) : -99);
const ageOf = (x) => x.m.age?.window?.p99_ms ?? x.m.age_ms ?? 0;
const dropsOf = (x) => drops.reduce((sum, f) => sum + (f.bad ? x.rates[f.key] : 0), 0);
const ways = {
  worst: (a, b) => healths.indexOf(a.m.health) - healths.indexOf(b.m.health) || step(used(b.m)) - step(used(a.m)),
  name: () => 0,
  age: (a, b) => step(ageOf(b)) - step(ageOf(a)),
  drops: (a, b) => step(dropsOf(b)) - step(dropsOf(a)),
  rate: (a, b) => step(b.rates.delivered) - step(a.rates.delivered),
};

// pick returns the mirrors that have all the words, sorted.
export function pick(mirrors, words, way) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const has = (x) => wanted.every((w) => `${x.name} ${x.m.host}/${x.m.channel} ${x.m.health}${x.over ? " over budget" : ""}`.toLowerCase().includes(w));
  return mirrors.filter(has).sort((a, b) => ways[way](a, b) || order(a.name, b.name));
}
