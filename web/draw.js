// SPDX-License-Identifier: MIT OR Apache-2.0
// The graph on a canvas: boxes and edges in view only, one frame at most for each change. Paths are made once, when places come; loads come often.

import { percent, short } from "./dom.js";

/** Height of a box, as the server's places have it. */
const BOX = 40;
/** Space around the whole. */
const MARGIN = 30;
/** Below this scale, text cannot be read and is not drawn. */
const READABLE = 0.45;
/** Below this scale, rates at edges are not drawn. */
const RATES = 0.75;
/** About the width of a character of the plain font. */
const CHARACTER = 6.2;
const [BOLD, PLAIN] = ["600 12px system-ui, sans-serif", "11px system-ui, sans-serif"];

/** Colours from calm to hot, by share of a core. */
export const COST = ["#2f6f9f", "#3f8f6f", "#9a8a1f", "#c4661f", "#c22f2f"];
/** Colours of workers. */
export const CORES = ["#2f6f9f", "#b0492f", "#3d7f3d", "#7b4fa3", "#8a6d1a", "#a83b75", "#3b7f86", "#5d5d5d"];

export const cost = (share) => COST[share >= 0.5 ? 4 : share >= 0.25 ? 3 : share >= 0.1 ? 2 : share >= 0.02 ? 1 : 0];
export const core = (worker) => CORES[worker % CORES.length];

/** A curve through points from above to below. */
function path(points) {
  const made = new Path2D();
  made.moveTo(...points[0]);
  for (let i = 1; i < points.length; i += 1) {
    const [[x0, y0], [x1, y1]] = [points[i - 1], points[i]];
    const middle = (y0 + y1) / 2;
    made.bezierCurveTo(x0, middle, x1, middle, x1, y1);
  }
  return made;
}

/** What is drawn of an edge: its path, the box around it, and the middle of its longest part. */
function shape({ points }) {
  if (!points || points.length < 2) return null;
  const [xs, ys] = [points.map((p) => p[0]), points.map((p) => p[1])];
  const at = Math.floor((points.length - 2) / 2);
  return {
    path: path(points),
    box: [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)],
    middle: [(points[at][0] + points[at + 1][0]) / 2, (points[at][1] + points[at + 1][1]) / 2],
  };
}

/** A drawing in `canvas`; `choose(name)` is called when an element is picked. */
export class Drawing {
  constructor(canvas, choose) {
    this.canvas = canvas;
    this.choose = choose;
    this.graph = { elements: [], edges: [], width: 1, height: 1 };
    this.by = "cost";
    this.chosen = null;
    this.found = null;
    this.shapes = [];
    this.most = 1;
    [this.x, this.y, this.scale] = [0, 0, 1];
    this.waits = false;
    this.fitted = false;
    this.listen();
  }

  /** Takes places: a graph as the API gives it. */
  set(graph) {
    this.graph = graph;
    this.at = new Map(graph.elements.map((element) => [element.name, element]));
    this.shapes = graph.edges.map(shape);
    if (!this.fitted) this.fit();
    this.load();
  }

  /** The loads of elements and edges are others. */
  load() {
    this.most = this.graph.edges.reduce((most, edge) => Math.max(most, edge.packets_per_s ?? 0), 1);
    this.draw();
  }

  /** Shows the whole. */
  fit() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !this.graph.width) return;
    const [w, h] = [this.graph.width + 2 * MARGIN, this.graph.height + 2 * MARGIN];
    // Large screens have larger letters.
    const most = 1.4 * parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
    this.scale = Math.min(most, Math.max(0.03, Math.min(width / w, height / h)));
    this.x = (width - this.graph.width * this.scale) / 2;
    this.y = Math.max(MARGIN * this.scale, (height - this.graph.height * this.scale) / 2);
    this.fitted = true;
    this.draw();
  }

  /** Brings an element into the middle. */
  centre(name) {
    const element = this.at?.get(name);
    if (!element || element.x === null) return;
    this.chosen = name;
    this.scale = Math.max(this.scale, 0.8);
    this.x = this.canvas.clientWidth / 2 - element.x * this.scale;
    this.y = this.canvas.clientHeight / 2 - element.y * this.scale;
    this.draw();
  }

  zoom(by, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const scale = Math.min(4, Math.max(0.03, this.scale * by));
    this.x = x - (x - this.x) * (scale / this.scale);
    this.y = y - (y - this.y) * (scale / this.scale);
    this.scale = scale;
    this.draw();
  }

  listen() {
    const pointers = new Map();
    let moved = 0;
    const canvas = this.canvas;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = canvas.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY / 500), event.clientX - box.x, event.clientY - box.y);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, [event.clientX, event.clientY]);
      moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (!before) return;
      const now = [event.clientX, event.clientY];
      const others = [...pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      if (others.length === 1) {
        // Two fingers change the scale around the one that rests.
        const distance = (p) => Math.hypot(p[0] - others[0][0], p[1] - others[0][1]);
        const box = canvas.getBoundingClientRect();
        if (distance(before) > 0) this.zoom(distance(now) / distance(before), others[0][0] - box.x, others[0][1] - box.y);
      } else {
        this.x += now[0] - before[0];
        this.y += now[1] - before[1];
        this.draw();
      }
      moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
      pointers.set(event.pointerId, now);
    });
    const up = (event) => {
      if (pointers.delete(event.pointerId) && moved < 4 && event.type === "pointerup") {
        const box = canvas.getBoundingClientRect();
        const hit = this.hit(event.clientX - box.x, event.clientY - box.y);
        this.chosen = hit?.name ?? null;
        this.choose(this.chosen);
        this.draw();
      }
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  /** Arrows follow edges; + and - zoom; 0 shows the whole. */
  key(event) {
    const { elements, edges } = this.graph;
    const here = this.chosen ?? elements[0]?.name;
    const next = (of, to) => edges.filter((edge) => edge[of] === here).map((edge) => edge[to])[0];
    const side = (by) => {
      const at = this.at?.get(here);
      const row = elements.filter((e) => at && e.y === at.y).sort((a, b) => a.x - b.x);
      return row[row.findIndex((e) => e.name === here) + by]?.name;
    };
    const steps = {
      ArrowDown: () => next("from", "to"), ArrowUp: () => next("to", "from"),
      ArrowRight: () => side(1), ArrowLeft: () => side(-1),
    };
    if (steps[event.key]) {
      event.preventDefault();
      const found = this.chosen ? steps[event.key]() : here;
      if (found) { this.centre(found); this.choose(found); }
    } else if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.fit();
  }

  hit(x, y) {
    const [gx, gy] = [(x - this.x) / this.scale, (y - this.y) / this.scale];
    return this.graph.elements.find((e) => e.x !== null && Math.abs(gx - e.x) <= e.width / 2 && Math.abs(gy - e.y) <= BOX / 2);
  }

  /** Draws in the next frame, once for however many changes. */
  draw() {
    if (this.waits) return;
    this.waits = true;
    requestAnimationFrame(() => { this.waits = false; this.paint(); });
  }

  paint() {
    const { canvas, scale } = this;
    const dense = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== Math.round(width * dense) || canvas.height !== Math.round(height * dense)) {
      [canvas.width, canvas.height] = [Math.round(width * dense), Math.round(height * dense)];
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(dense, 0, 0, dense, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.setTransform(dense * scale, 0, 0, dense * scale, dense * this.x, dense * this.y);
    this.view = [-this.x / scale, -this.y / scale, (width - this.x) / scale, (height - this.y) / scale];
    const style = getComputedStyle(canvas);
    const variable = (name) => style.getPropertyValue(name).trim();
    this.colours = { ground: variable("--ground"), text: variable("--text"), line: variable("--faint"), hot: variable("--hot"), bad: variable("--bad"), accent: variable("--accent") };
    this.graph.edges.forEach((edge, at) => this.edge(pen, edge, this.shapes[at]));
    const seen = this.graph.elements.filter((e) => e.x !== null && this.sees(e.x - e.width / 2, e.y - BOX / 2, e.x + e.width / 2, e.y + BOX / 2));
    for (const element of seen) this.box(pen, element);
    if (scale >= READABLE) this.words(pen, seen);
    if (scale >= RATES) this.rates(pen);
  }

  sees(left, top, right, bottom) {
    const [x0, y0, x1, y1] = this.view;
    return right >= x0 && left <= x1 && bottom >= y0 && top <= y1;
  }

  edge(pen, edge, shape) {
    if (!shape || !this.sees(...shape.box)) return;
    const rate = edge.packets_per_s ?? 0;
    pen.lineWidth = rate > 0 ? 1 + 7 * Math.log1p(rate) / Math.log1p(this.most) : 1;
    pen.strokeStyle = edge.hand_off ? this.colours.hot : this.by === "core" && rate > 0 ? this.sender(edge) : this.colours.line;
    pen.globalAlpha = rate > 0 ? 0.85 : 0.4;
    pen.setLineDash(edge.hand_off ? [10, 6] : []);
    pen.stroke(shape.path);
    pen.setLineDash([]);
    pen.globalAlpha = 1;
  }

  /** The colour of the worker that sends most over an edge. */
  sender(edge) {
    const workers = this.at.get(edge.from)?.workers ?? [];
    const first = workers.reduce((most, load) => (load.packets_per_s > (most?.packets_per_s ?? 0) ? load : most), null);
    return first ? core(first.worker) : this.colours.line;
  }

  box(pen, element) {
    const [left, top] = [element.x - element.width / 2, element.y - BOX / 2];
    this.fill(pen, element, left, top);
    if (element.dropped_per_s > 0) {
      pen.fillStyle = this.colours.bad;
      pen.fillRect(left, top + BOX, element.width, 4);
    }
    const is_found = this.found && element.name.toLowerCase().includes(this.found);
    if (element.name === this.chosen || is_found) {
      pen.strokeStyle = this.colours.accent;
      pen.lineWidth = 4;
      pen.strokeRect(left - 3, top - 3, element.width + 6, BOX + 6);
    }
  }

  /** Names, then classes: a change of the font costs more than a text. */
  words(pen, elements) {
    pen.fillStyle = "#ffffff";
    pen.textAlign = "center";
    pen.font = BOLD;
    for (const element of elements) pen.fillText(element.name, element.x, element.y - 3, element.width - 8);
    pen.font = PLAIN;
    for (const element of elements) {
      const load = element.busy_share >= 0.001 ? ` · ${percent(element.busy_share)}` : "";
      const has_room = (element.class.length + load.length) * CHARACTER < element.width;
      pen.fillText(has_room ? element.class + load : element.class, element.x, element.y + 12, element.width - 8);
    }
  }

  /** Packets for each second, at edges that have some. */
  rates(pen) {
    pen.font = PLAIN;
    pen.textAlign = "left";
    pen.lineWidth = 3;
    pen.strokeStyle = this.colours.ground;
    pen.fillStyle = this.colours.text;
    this.graph.edges.forEach((edge, at) => {
      const shape = this.shapes[at];
      if (!shape || !(edge.packets_per_s >= 0.5)) return;
      const [x, y] = shape.middle;
      if (!this.sees(x, y - 6, x + 60, y + 6)) return;
      const words = `${short(edge.packets_per_s)}/s`;
      pen.strokeText(words, x + 8, y + 4);
      pen.fillText(words, x + 8, y + 4);
    });
  }

  /** One colour by cost, or a stripe for each worker by its share. */
  fill(pen, element, left, top) {
    const workers = element.workers.filter((load) => load.packets_per_s > 0 || load.received_per_s > 0);
    if (this.by === "cost" || !workers.length) {
      pen.fillStyle = this.by === "cost" ? cost(element.busy_share ?? 0) : "#5a646e";
      pen.fillRect(left, top, element.width, BOX);
      return;
    }
    const share = (load) => Math.max(load.packets_per_s, load.received_per_s ?? 0);
    const all = workers.reduce((sum, load) => sum + share(load), 0);
    let x = left;
    for (const load of workers) {
      const part = element.width * share(load) / all;
      pen.fillStyle = core(load.worker);
      pen.fillRect(x, top, part + 0.5, BOX);
      x += part;
    }
  }
}
