// Numbers as people read them.

export function millis(v) {
  if (v === null || v === undefined) return "–";
  if (v < 0) return "−" + millis(-v);
  if (v < 10) return v.toFixed(2) + " ms";
  if (v < 100) return v.toFixed(1) + " ms";
  if (v < 10e3) return v.toFixed(0) + " ms";
  return duration(v / 1000);
}

export function duration(s) {
  s = Math.floor(s);
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const i = Math.max(0, parts.findIndex(([n]) => s >= n));
  if (s < 60) return s + " s";
  const [n, unit] = parts[i], [m, small] = parts[i + 1];
  return `${Math.floor(s / n)} ${unit} ${Math.floor((s % n) / m)} ${small}`;
}

export function rate(v) {
  if (v === 0) return "0/s";
  return (v < 10 ? v.toFixed(1) : v.toFixed(0)) + "/s";
}

export function bits(v) {
  for (const [n, unit] of [[1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"]]) {
    if (v >= n) return (v / n).toPrecision(3).replace(/\.?0+$/, (z) => (z.startsWith(".") ? "" : z)) + " " + unit;
  }
  return v.toFixed(0) + " bit/s";
}

export function percent(v) {
  const p = 100 * v;
  return (p === 0 ? "0" : p < 0.1 ? "< 0.1" : p < 10 ? p.toFixed(1) : p.toFixed(0)) + " %";
}

export function count(n) { return n.toLocaleString("en").replaceAll(",", "\u202f"); }
