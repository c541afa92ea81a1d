// Numbers as people read them.

export function millis(v) {
  if (v === null || v === undefined) return "–";
  if (v < 0) return "−" + millis(-v);
  if (v < 9.995) return v.toFixed(2) + " ms";
  if (v < 99.95) return v.toFixed(1) + " ms";
  if (v < 9999.5) return v.toFixed(0) + " ms";
  return duration(Math.round(v / 1000));
}

export function duration(s) {
  s = Math.floor(s);
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const i = Math.max(0, parts.findIndex(([n]) => s >= n));
  if (s < 60) return s + " s";
  const [n, unit] = parts[i], [m, small] = parts[i + 1];
  const rest = Math.floor((s % n) / m);
  return `${Math.floor(s / n)} ${unit}` + (rest ? ` ${rest} ${small}` : "");
}

export function hertz(v) {
  if (v === null) return "– Hz";
  return (v === 0 ? "0" : v < 10 ? v.toFixed(1) : v.toFixed(0)) + " Hz";
}

export function rate(v) {
  if (v === null) return "–";
  if (v === 0) return "0/s";
  return (v < 10 ? v.toFixed(1) : v.toFixed(0)) + "/s";
}

export function bits(v) {
  for (const [n, unit] of [[1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"]]) {
    if (v >= 0.9995 * n) return (v / n).toPrecision(3).replace(/\.?0+$/, (z) => (z.startsWith(".") ? "" : z)) + " " + unit;
  }
  return v.toFixed(0) + " bit/s";
}

export function percent(v) {
  if (v === null) return "–";
  const p = 100 * v;
  return (p > 9999 ? "> 9999" : p === 0 ? "0" : p < 0.1 ? "< 0.1" : p < 10 ? p.toFixed(1) : p.toFixed(0)) + " %";
}

// breakable is a name as nodes: a line may end behind ".", "_", "-" and "/".
export function breakable(name) {
  const parts = name.split(/(?<=[._/-])(?=[^._/-])/);
  return parts.flatMap((p, i) => (i ? [document.createElement("wbr"), p] : [p]));
}

// lines cuts a name into lines of at most so many letters, where it breaks if it can.
export function lines(name, most) {
  const list = [""];
  for (const part of name.split(/(?<=[._/-])(?=[^._/-])/).flatMap((p) => p.match(new RegExp(`.{1,${most}}`, "gsu")) ?? [])) {
    if (list.at(-1) && list.at(-1).length + part.length > most) list.push("");
    list[list.length - 1] += part;
  }
  return list;
}

// glued is a text whose numbers stay on the line of their unit.
export function glued(text) {
  return text.replace(/(\d) (?=(ns|µs|ms|s|min|h|d|Hz|%|[kMG]?bit\/s|[KMG]?iB|B)(?![\w/]))/g, "$1\u00a0");
}

export function count(n) { return n.toLocaleString("en").replaceAll(",", "\u202f"); }
