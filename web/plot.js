// SPDX-License-Identifier: MIT OR Apache-2.0
// Lines on a canvas, with a legend.

import { h, put, short } from "./dom.js";

const COLOURS = ["#2f7fbf", "#c4581f", "#3d8f4d", "#8a5bb3", "#a5801f", "#b5407c", "#3b8f96", "#777777"];
/** Room around the lines, for letters of the usual size. */
const [LEFT, RIGHT, ABOVE, BELOW] = [52, 12, 20, 20];

export const colour = (at) => COLOURS[at % COLOURS.length];

/** The least of 1, 2 and 5 times a power of ten that is not below a value. */
function round_up(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * 0.9999);
}

/**
 * A plot: `set(lines)` draws lines, each { name, points: [[x, y, is_bad]], marks, dashed }. `unit` names what is upward, `label(x)` places on the
 * horizontal axis, `most` the least that the vertical axis reaches.
 */
export function chart(title, unit, label, most = 0) {
  const canvas = h("canvas.plot", { role: "img", "aria-label": title });
  const legend = h("div.legend");
  let [lines, names, waits] = [[], "", false];
  const draw = () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => { waits = false; paint(canvas, lines, { unit, label, most }); });
  };
  const size = new ResizeObserver(draw);
  size.observe(canvas);
  const set = (next) => {
    lines = next;
    draw();
    const now = lines.map((line) => line.name).join("\n");
    if (now === names) return;
    names = now;
    legend.replaceChildren();
    put(legend, lines.map((line, at) => { const mark = h("i"); mark.style.background = colour(at); return h("span", { title: line.text }, mark, line.name); }));
  };
  return { element: h("div", {}, canvas, legend), set };
}

function paint(canvas, lines, { unit, label, most: least }) {
  // Large screens have larger letters; the plot grows with them.
  const letters = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
  const dense = (window.devicePixelRatio || 1) * letters;
  const [width, height] = [canvas.clientWidth / letters, canvas.clientHeight / letters];
  if (canvas.width !== Math.round(width * dense) || canvas.height !== Math.round(height * dense)) {
    [canvas.width, canvas.height] = [Math.round(width * dense), Math.round(height * dense)];
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(dense, 0, 0, dense, 0, 0);
  pen.clearRect(0, 0, width, height);
  const all = lines.flatMap((line) => line.points);
  if (!all.length || width < 80) return;
  const style = getComputedStyle(canvas);
  const variable = (name) => style.getPropertyValue(name).trim();
  const [first, last] = all.reduce(([low, high], [x]) => [Math.min(low, x), Math.max(high, x)], [Infinity, -Infinity]);
  const most = round_up(all.reduce((high, [, y]) => Math.max(high, y), least) || 1);
  const x = (at) => LEFT + (last > first ? (at - first) / (last - first) : 0.5) * (width - LEFT - RIGHT);
  const y = (at) => ABOVE + (1 - at / most) * (height - ABOVE - BELOW);
  pen.font = "11px system-ui, sans-serif";
  pen.lineWidth = 1;
  pen.fillStyle = variable("--faint");
  pen.strokeStyle = variable("--line");
  pen.textAlign = "right";
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const at = Math.round(y(share * most)) + 0.5;
    if (share !== 0.25 && share !== 0.75) pen.fillText(short(share * most), LEFT - 6, at + 4);
    pen.beginPath();
    pen.moveTo(LEFT, at);
    pen.lineTo(width - RIGHT, at);
    pen.stroke();
  }
  pen.textAlign = "left";
  pen.fillText(unit, 6, 12);
  pen.fillText(label(first), LEFT, height - 5);
  pen.textAlign = "right";
  if (last > first) pen.fillText(label(last), width - RIGHT, height - 5);
  lines.forEach((line, at) => curve(pen, line, colour(at), x, y, variable("--bad")));
}

function curve(pen, line, ink, x, y, bad) {
  pen.strokeStyle = ink;
  pen.lineWidth = 2;
  pen.setLineDash(line.dashed ? [3, 4] : []);
  pen.beginPath();
  line.points.forEach(([px, py], i) => (i ? pen.lineTo(x(px), y(py)) : pen.moveTo(x(px), y(py))));
  pen.stroke();
  pen.setLineDash([]);
  if (line.points.length > 1 && !line.marks) return;
  for (const [px, py, is_bad] of line.points) {
    pen.fillStyle = is_bad ? bad : ink;
    pen.fillRect(x(px) - 3, y(py) - 3, 6, 6);
  }
}
