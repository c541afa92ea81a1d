// Age over time on a canvas. Both axes of all plots mean the same: seconds to now, and
// the age in powers of ten around the budget.

import { past } from "./model.js";
import { millis } from "./text.js";

let colors = null;
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (colors = null));

function palette() {
  if (!colors) {
    const style = getComputedStyle(document.documentElement);
    colors = Object.fromEntries(["accent", "warn", "muted", "text", "line", "tint-stale", "tint-waiting"].map((c) => [c, style.getPropertyValue("--" + c).trim()]));
  }
  return colors;
}

// draw paints a track; with scale, the axes have marks.
export function draw(canvas, track, budget, scale) {
  const width = canvas.clientWidth, height = canvas.clientHeight, dense = devicePixelRatio || 1;
  if (!width || !height) return;
  const w = Math.round(width * dense), h = Math.round(height * dense);
  if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
  const c = canvas.getContext("2d"), color = palette();
  c.setTransform(dense, 0, 0, dense, 0, 0);
  c.clearRect(0, 0, width, height);
  const left = scale ? 52 : 0, bottom = height - (scale ? 18 : 0), top = scale ? 8 : 3;
  const high = scale && track ? Math.max(1, Math.ceil(Math.log10(Math.max(1, ...track.peak) / budget))) : 1;
  const x = (i, n) => left + ((past - n + i + 1) / past) * (width - left);
  const y = (ms) => bottom - Math.min(1, Math.max(0, (Math.log10(Math.max(ms, 1e-6) / budget) + 2) / (2 + high))) * (bottom - top);
  if (track) tints(c, track, x, top, bottom, color);
  if (scale) axes(c, { left, width, height, bottom, budget, high, y, color });
  if (track) {
    const parts = pieces(track.mean);
    for (const [from, to, tint] of [[y(budget), bottom, color.accent], [0, y(budget), color.warn]]) {
      c.save();
      c.beginPath();
      c.rect(left, from, width - left, to - from);
      c.clip();
      curves(c, track, parts, x, y, tint);
      c.restore();
    }
  }
  c.strokeStyle = color.muted;
  c.lineWidth = 1;
  c.setLineDash([3, 3]);
  line(c, left, Math.round(y(budget)) + 0.5, width);
  c.setLineDash([]);
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

function axes(c, { left, width, height, bottom, budget, high, y, color }) {
  c.font = "11px system-ui, sans-serif";
  c.fillStyle = color.muted;
  c.strokeStyle = color.line;
  c.lineWidth = 1;
  c.textBaseline = "middle";
  c.textAlign = "right";
  for (let e = Math.ceil(Math.log10(budget) - 2); e <= Math.log10(budget) + high + 1e-9; e++) {
    const at = Math.round(y(10 ** e)) + 0.5;
    line(c, left, at, width);
    if (Math.abs(at - y(budget)) > 11 || 10 ** e === budget) c.fillText(e >= 3 ? 10 ** (e - 3) + " s" : 10 ** e + " ms", left - 5, at);
  }
  if (10 ** Math.round(Math.log10(budget)) !== budget) {
    c.fillStyle = color.text;
    c.fillText(millis(budget).replace(/\.0+ /, " "), left - 5, y(budget));
    c.fillStyle = color.muted;
  }
  c.textBaseline = "alphabetic";
  for (const [at, text, align] of [[left, `${past / 60} min ago`, "left"], [left + ((width - left) * 2) / 3, "1 min", "center"], [width, "now", "right"]]) {
    c.textAlign = align;
    c.fillText(text, at, height - 4);
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
