// Age over time on a canvas. Both axes have numbers: seconds to now, and the age, by powers
// of ten. They reach as far as what is known, so that no plot is half empty.

import { past } from "./model.js";

let colors = null;
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (colors = null));

function palette() {
  if (!colors) {
    const style = getComputedStyle(document.documentElement);
    colors = Object.fromEntries(["accent", "warn", "muted", "text", "line", "tint-stale", "tint-waiting"].map((c) => [c, style.getPropertyValue("--" + c).trim()]));
  }
  return colors;
}

const rounds = [1, 2, 5, 10];

// round is the nearest of 1, 2, 5, 10 … that is not less than v; or with down, not more.
export function round(v, down) {
  const ten = 10 ** Math.floor(Math.log10(v) + 1e-9), fits = rounds.filter((r) => (down ? r * ten <= v * (1 + 1e-9) : r * ten >= v * (1 - 1e-9)));
  return (down ? fits.at(-1) : fits[0]) * ten;
}

const spans = [10, 20, 30, 46, 60, 90, 120, 150];

// scale is what the axes of a track show: ages from low to high (ms), and the last span seconds.
// The budget is between them unless half of the plot would be empty then.
export function scale(track, budget) {
  const least = 0.01, known = (list) => list.filter((v) => v !== null).map((v) => Math.max(v, least));
  const mean = known(track.mean), all = mean.concat(known(track.peak)), most = Math.max(...all);
  const low = round(Math.min(...mean, most) / 1.15, true);
  const fits = budget > low && Math.log(budget / most) < Math.log(most / low);
  return { low, high: 1.15 * (fits ? Math.max(budget, most) : most), span: spans.find((s) => track.mean.length <= s) ?? past, fits };
}

// tick is an age on the axis.
function tick(ms) {
  const s = ms >= 1000;
  return Number((s ? ms / 1000 : ms).toPrecision(3)) + (s ? " s" : " ms");
}

const ago = (s) => (s % 60 ? `${s} s ago` : `${s / 60} min ago`);

// draw paints a track. It has less text where there is less room. It returns false when there is nothing to draw.
export function draw(canvas, track, budget) {
  if (!track?.mean.some((v) => v !== null)) return false;
  const width = canvas.clientWidth, height = canvas.clientHeight, dense = devicePixelRatio || 1;
  if (!width || !height) return true;
  const w = Math.round(width * dense), h = Math.round(height * dense);
  if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
  const c = canvas.getContext("2d"), color = palette();
  c.setTransform(dense, 0, 0, dense, 0, 0);
  c.clearRect(0, 0, width, height);
  const { low, high, span, fits } = scale(track, budget);
  const tall = height >= 60, size = tall ? 11 : 10;
  const left = tall ? 52 : 44, bottom = height - (tall ? 17 : size / 2), top = size / 2;
  const x = (i, n) => left + ((span - n + i + 1) / span) * (width - left);
  const y = (ms) => bottom - Math.min(1, Math.max(0, Math.log(Math.max(ms, 1e-6) / low) / Math.log(high / low))) * (bottom - top);
  tints(c, track, x, top, bottom, color);
  c.font = `${size}px system-ui, sans-serif`;
  axis(c, { left, width, y, low, high, size, budget: fits ? budget : null, color });
  if (tall) times(c, { left, width, height, span, color });
  const over = budget >= high ? top - 9 : budget <= low ? height : y(budget), parts = pieces(track.mean);
  for (const [from, to, tint] of [[over, height, color.accent], [0, over, color.warn]]) {
    c.save();
    c.beginPath();
    c.rect(left, from, width - left, to - from);
    c.clip();
    curves(c, track, parts, x, y, tint);
    c.restore();
  }
  c.strokeStyle = color.muted;
  c.lineWidth = 1;
  if (fits) {
    c.setLineDash([3, 3]);
    line(c, left, Math.round(y(budget)) + 0.5, width);
    c.setLineDash([]);
  } else if (tall) {
    c.fillStyle = color.muted;
    c.textAlign = "left";
    c.textBaseline = "top";
    c.fillText(`${budget > high ? "↑" : "↓"} over budget from ${tick(budget)}`, left + 4, budget > high ? top + 1 : bottom - size - 3);
  }
  return true;
}

// tints marks the time in which a mirror was stale, or nobody fed it.
function tints(c, track, x, top, bottom, color) {
  const n = track.state.length;
  for (let i = 0; i < n; ) {
    let end = i + 1;
    while (end < n && track.state[end] === track.state[i]) end++;
    if (!"lc".includes(track.state[i])) { // live; contested, which is fed too
      c.fillStyle = color[track.state[i] === "s" ? "tint-stale" : "tint-waiting"];
      c.fillRect(x(i - 1, n), top, x(end - 1, n) - x(i - 1, n), bottom - top);
    }
    i = end;
  }
}

// axis writes the ages: the budget, both ends, and in between what has room.
function axis(c, { left, width, y, low, high, size, budget, color }) {
  const all = [budget, round(high, true), low].filter((v) => v !== null), done = [];
  for (let v = low; v < high; v = round(v * 1.5)) all.push(v);
  all.splice(3, Infinity, ...all.slice(3).sort((a, b) => tens(b) - tens(a)));
  c.strokeStyle = color.line;
  c.lineWidth = 1;
  c.textBaseline = "middle";
  c.textAlign = "right";
  for (const v of all) {
    if (done.some((d) => Math.abs(d - y(v)) < size + 2)) continue;
    done.push(y(v));
    c.fillStyle = v === budget ? color.text : color.muted;
    c.fillText(tick(v), left - 5, y(v));
    if (v !== budget) line(c, left, Math.round(y(v)) + 0.5, width);
  }
}

// tens reports whether a number is a power of ten.
function tens(v) { return Number(Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-6); }

function times(c, { left, width, height, span, color }) {
  c.fillStyle = color.muted;
  c.textBaseline = "alphabetic";
  for (const [at, text, align] of [[left, ago(span), "left"], [left + (width - left) / 2, ago(span / 2), "center"], [width, "now", "right"]]) {
    c.textAlign = align;
    c.fillText(text, at, height - 3);
  }
}

function line(c, from, at, to) {
  c.beginPath();
  c.moveTo(from, at);
  c.lineTo(to, at);
  c.stroke();
}

// pieces are the runs [from, to) of what is known.
function pieces(list) {
  const runs = [];
  for (let i = 0, from = -1; i <= list.length; i++) {
    const known = i < list.length && list[i] !== null;
    if (known && from < 0) from = i;
    if (!known && from >= 0) {
      runs.push([from, i]);
      from = -1;
    }
  }
  return runs;
}

function curves(c, track, runs, x, y, color) {
  const n = track.mean.length;
  for (const [from, to] of runs) {
    c.beginPath();
    for (let i = from; i < to; i++) c.lineTo(x(i, n), y(track.peak[i] ?? track.mean[i]));
    for (let i = to - 1; i >= from; i--) c.lineTo(x(i, n), y(track.mean[i]));
    c.closePath();
    c.globalAlpha = 0.28;
    c.fillStyle = color;
    c.fill();
    c.globalAlpha = 1;
    c.beginPath();
    if (to - from === 1) c.moveTo(x(from, n) - 2, y(track.mean[from]));
    for (let i = from; i < to; i++) c.lineTo(x(i, n), y(track.mean[i]));
    c.strokeStyle = color;
    c.lineWidth = 1.6;
    c.lineJoin = "round";
    c.stroke();
  }
}
