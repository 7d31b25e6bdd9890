// SPDX-License-Identifier: MIT OR Apache-2.0
// The graph on a canvas: boxes and edges in view only, one frame at most for each change. A thousand elements stay fluid.

/** Height of a box, as the server's places have it. */
const BOX = 40;
/** Space around the whole. */
const MARGIN = 30;
/** Below this scale, text cannot be read and is not drawn. */
const READABLE = 0.45;

/** Colours from calm to hot, by share of a core. */
export const COST = ["#2f6f9f", "#3f8f6f", "#9a8a1f", "#c4661f", "#c22f2f"];
/** Colours of workers. */
export const CORES = ["#2f6f9f", "#b0492f", "#3d7f3d", "#7b4fa3", "#8a6d1a", "#a83b75", "#3b7f86", "#5d5d5d"];

export const cost = (share) => COST[share >= 0.5 ? 4 : share >= 0.25 ? 3 : share >= 0.1 ? 2 : share >= 0.02 ? 1 : 0];
export const core = (worker) => CORES[worker % CORES.length];

const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A drawing in `canvas`; `choose(name)` is called when an element is picked. */
export class Drawing {
  constructor(canvas, choose) {
    this.canvas = canvas;
    this.choose = choose;
    this.graph = { elements: [], edges: [], width: 1, height: 1 };
    this.by = "cost";
    this.chosen = null;
    this.found = null;
    [this.x, this.y, this.scale] = [0, 0, 1];
    this.waits = false;
    this.fitted = false;
    this.listen();
  }

  /** Takes new places and rates. */
  set(graph) {
    this.graph = graph;
    this.at = new Map(graph.elements.map((element) => [element.name, element]));
    if (!this.fitted) this.fit();
    this.draw();
  }

  /** Shows the whole. */
  fit() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !this.graph.width) return;
    const [w, h] = [this.graph.width + 2 * MARGIN, this.graph.height + 2 * MARGIN];
    this.scale = Math.min(1.4, Math.max(0.03, Math.min(width / w, height / h)));
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
    this.colours = { text: variable("--text"), line: variable("--faint"), hot: variable("--hot"), bad: variable("--bad"), accent: variable("--accent") };
    const most = Math.max(1, ...this.graph.edges.map((edge) => edge.packets_per_s ?? 0));
    for (const edge of this.graph.edges) this.edge(pen, edge, most);
    for (const element of this.graph.elements) this.box(pen, element);
  }

  sees(left, top, right, bottom) {
    const [x0, y0, x1, y1] = this.view;
    return right >= x0 && left <= x1 && bottom >= y0 && top <= y1;
  }

  edge(pen, edge, most) {
    const points = edge.points;
    if (!points || points.length < 2) return;
    const [xs, ys] = [points.map((p) => p[0]), points.map((p) => p[1])];
    if (!this.sees(Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys))) return;
    const rate = edge.packets_per_s ?? 0;
    pen.lineWidth = rate > 0 ? 1 + 7 * Math.log1p(rate) / Math.log1p(most) : 1;
    pen.strokeStyle = edge.hand_off ? this.colours.hot : this.colours.line;
    pen.globalAlpha = rate > 0 ? 0.85 : 0.4;
    pen.setLineDash(edge.hand_off ? [10, 6] : []);
    pen.beginPath();
    pen.moveTo(...points[0]);
    for (let i = 1; i < points.length; i += 1) {
      const [[x0, y0], [x1, y1]] = [points[i - 1], points[i]];
      const middle = (y0 + y1) / 2;
      pen.bezierCurveTo(x0, middle, x1, middle, x1, y1);
    }
    pen.stroke();
    pen.setLineDash([]);
    pen.globalAlpha = 1;
  }

  box(pen, element) {
    if (element.x === null) return;
    const [left, top] = [element.x - element.width / 2, element.y - BOX / 2];
    if (!this.sees(left, top, left + element.width, top + BOX)) return;
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
    if (this.scale < READABLE) return;
    pen.fillStyle = "#ffffff";
    pen.textAlign = "center";
    pen.font = "600 12px system-ui, sans-serif";
    pen.fillText(element.name, element.x, element.y - 3, element.width - 8);
    pen.font = "11px system-ui, sans-serif";
    pen.fillText(element.class, element.x, element.y + 12, element.width - 8);
  }

  /** One colour by cost, or a stripe for each worker by its share. */
  fill(pen, element, left, top) {
    if (this.by === "cost" || !element.workers.length) {
      pen.fillStyle = this.by === "cost" ? cost(element.busy_share ?? 0) : "#5a646e";
      pen.fillRect(left, top, element.width, BOX);
      return;
    }
    const all = element.workers.reduce((sum, load) => sum + load.packets_per_s, 0);
    let x = left;
    for (const load of element.workers) {
      const part = all > 0 ? load.packets_per_s / all : 1 / element.workers.length;
      pen.fillStyle = core(load.worker);
      pen.fillRect(x, top, element.width * part + 0.5, BOX);
      x += element.width * part;
    }
  }
}
