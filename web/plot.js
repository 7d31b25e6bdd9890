// SPDX-License-Identifier: MIT OR Apache-2.0
// Lines over time on a canvas.

import { short } from "./dom.js";

const COLOURS = ["#2f7fbf", "#c4581f", "#3d8f4d", "#8a5bb3", "#a5801f", "#b5407c", "#3b8f96", "#777777"];
const LEFT = 52;
const BELOW = 20;

const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export const colour = (at) => COLOURS[at % COLOURS.length];

/** Draws `lines`, each { name, points: [[x, y]] }; `label(x)` names places on the horizontal axis. */
export function plot(canvas, lines, label) {
  const dense = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  [canvas.width, canvas.height] = [width * dense, height * dense];
  const pen = canvas.getContext("2d");
  pen.setTransform(dense, 0, 0, dense, 0, 0);
  const all = lines.flatMap((line) => line.points);
  if (!all.length || width < 80) return;
  const [first, last] = [Math.min(...all.map((p) => p[0])), Math.max(...all.map((p) => p[0]))];
  const most = Math.max(...all.map((p) => p[1])) || 1;
  const x = (at) => LEFT + (last > first ? (at - first) / (last - first) : 0.5) * (width - LEFT - 12);
  const y = (at) => 8 + (1 - at / most) * (height - 8 - BELOW);
  pen.font = "11px system-ui, sans-serif";
  pen.fillStyle = variable("--faint");
  pen.strokeStyle = variable("--line");
  pen.textAlign = "right";
  for (const share of [0, 0.5, 1]) {
    pen.fillText(short(share * most), LEFT - 6, y(share * most) + 4);
    pen.beginPath();
    pen.moveTo(LEFT, y(share * most));
    pen.lineTo(width - 12, y(share * most));
    pen.stroke();
  }
  pen.textAlign = "left";
  pen.fillText(label(first), LEFT, height - 5);
  pen.textAlign = "right";
  pen.fillText(label(last), width - 12, height - 5);
  lines.forEach((line, at) => {
    pen.strokeStyle = colour(at);
    pen.lineWidth = 2;
    pen.beginPath();
    line.points.forEach(([px, py], i) => (i ? pen.lineTo(x(px), y(py)) : pen.moveTo(x(px), y(py))));
    pen.stroke();
    if (line.points.length === 1 || line.marks) {
      pen.fillStyle = colour(at);
      for (const [px, py] of line.points) pen.fillRect(x(px) - 2.5, y(py) - 2.5, 5, 5);
    }
  });
}
