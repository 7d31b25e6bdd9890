// What is seen: where lanes and rows are, and drawing them. What is drawn costs by the pixel, not by the span: spans that begin in the same pixel are found
// by bisection and drawn as one.

const ROW = 17;
const THIN = 7;
const GAP = 2;
const PAD = 4;
const TITLE = 16;
const GRAPH = 26;

/** Which part of the time is seen, and where things are. Times are nanoseconds from the beginning. */
class View {
  constructor(trace) {
    this.trace = trace;
    this.from = 0;
    this.span = trace.length;
    this.selected = -1;
    this.folded = new Set();
    /** Of each row, the spans that match the search; null without a search. */
    this.hits = null;
    /** The counter whose rates lanes show; null if none. */
    this.counter = null;
    this.width = 1;
    this.gutter = 150;
    this.layOut();
  }

  /** Gives each lane and row its place from above. */
  layOut() {
    let y = 0;
    this.places = [];
    this.trace.lanes.forEach((lane, number) => {
      const top = y;
      let at = y + PAD;
      const rows = [];
      for (const strip of lane.strips) {
        const thin = strip.what === "state" || strip.what === "moments" || strip.what === "kernel";
        const shown = this.folded.has(number) ? strip.rows.slice(0, 1) : strip.rows;
        for (const row of shown) {
          const height = thin ? THIN : ROW;
          rows.push({ row, y: at, height, thin });
          at += height + 1;
        }
        at += GAP;
      }
      const counted = this.counter && !this.folded.has(number) && this.counter.lanes.get(number);
      const graph = counted ? { ...counted, y: at, height: GRAPH } : null;
      if (graph) at += GRAPH + GAP;
      y = Math.max(at + PAD - GAP, top + 2 * PAD + (lane.note ? 2 : 1) * TITLE);
      this.places.push({ lane, number, y: top, height: y - top, rows, graph });
    });
    this.height = y;
    this.placeOfRow = new Map(this.places.flatMap((p) => p.rows.map((r) => [r.row, r])));
  }

  get plot() {
    return Math.max(1, this.width - this.gutter);
  }

  /** Nanoseconds of a pixel. */
  get pixel() {
    return this.span / this.plot;
  }

  x(time) {
    return this.gutter + (time - this.from) / this.pixel;
  }

  time(x) {
    return this.from + (x - this.gutter) * this.pixel;
  }

  /** Shows another part, which stays within the recording, or nearly. */
  show(from, span) {
    const whole = this.trace.length;
    this.span = Math.min(Math.max(span, 50), whole * 1.02);
    const edge = this.span * 0.01;
    this.from = Math.min(Math.max(from, -edge), Math.max(-edge, whole - this.span + edge));
  }

  zoom(factor, x = this.gutter + this.plot / 2) {
    const time = this.time(x);
    const span = Math.min(Math.max(this.span * factor, 50), this.trace.length * 1.02);
    this.show(time - (time - this.from) * (span / this.span), span);
  }

  move(share) {
    this.show(this.from + this.span * share, this.span);
  }

  all() {
    this.show(-this.trace.length * 0.01, this.trace.length * 1.02);
  }

  /** Makes a span seen: where it is out of view, or too small or large for it. */
  reveal(id, fill = false) {
    const took = this.trace.took(id);
    const from = this.trace.from[id];
    let span = this.span;
    if (fill) span = took ? took * 1.25 : Math.min(span, 20000);
    else if (took > 0.9 * span) span = took * 1.6;
    else if (took < 3 * this.pixel) span = took ? Math.max(took * 40, 1000) : Math.min(span, 200000);
    const seen = from >= this.from && from + took <= this.from + this.span;
    if (span !== this.span || !seen) this.show(from + took / 2 - span / 2, span);
  }
}

class Colours {
  constructor() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(`--${name}`).trim();
    for (const name of ["page", "ink", "soft", "rule", "grid", "lane", "accent", "warn", "warn-ink", "drop", "span-ink", "graph"]) this[name] = of(name);
    this.elements = [0, 1, 2, 3, 4, 5, 6, 7].map((n) => of(`b${n}`));
    this.byKind = {
      task: of("task"), queue: of("queue"), "lock wait": of("warn"), "lock held": of("held"), sleep: of("sleep"), drop: of("drop"),
      control: of("control"), "router's thread": of("own"), "other thread": of("foreign"), interrupt: of("interrupt"), softirq: of("softirq"),
      running: of("running"), ready: of("ready"), blocked: of("blocked"), "kernel wait": of("kernel-wait"), kernel: of("kernel"),
    };
  }

  /** The colours of all names. */
  paint(trace) {
    this.ofName = trace.names.map((text, name) => {
      const kind = trace.kinds[trace.kindOfName[name]];
      if (kind !== "batch") return this.byKind[kind];
      let hash = 7;
      for (let i = 0; i < text.length; i++) hash = (hash * 31 + text.charCodeAt(i)) >>> 0;
      return this.elements[hash % this.elements.length];
    });
  }
}

class Painter {
  constructor(view, canvas, top, scroller) {
    this.view = view;
    this.trace = view.trace;
    this.canvas = canvas;
    this.top = top;
    this.scroller = scroller;
    this.recolour();
  }

  recolour() {
    this.colours = new Colours();
    this.colours.paint(this.trace);
    this.overview = null;
  }

  /** Fits a canvas to its place and the screen's pixels. */
  fit(canvas, width, height) {
    const scale = devicePixelRatio || 1;
    const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
    if (canvas.width !== w || canvas.height !== h) {
      [canvas.width, canvas.height] = [w, h];
      [canvas.style.width, canvas.style.height] = [`${width}px`, `${height}px`];
    }
    const paper = canvas.getContext("2d");
    paper.setTransform(scale, 0, 0, scale, 0, 0);
    paper.clearRect(0, 0, width, height);
    paper.font = "11px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
    paper.textBaseline = "middle";
    return paper;
  }

  draw() {
    const began = performance.now();
    const { view, scroller } = this;
    const [width, height] = [scroller.clientWidth, scroller.clientHeight];
    view.width = width;
    view.gutter = width < 900 ? 108 : 150;
    const paper = this.fit(this.canvas, width, height);
    const scroll = scroller.scrollTop;
    this.drawGrid(paper, height);
    const seen = view.places.filter((p) => p.y < scroll + height && p.y + p.height > scroll);
    for (const place of seen) this.drawLane(paper, place, scroll, width);
    this.drawHandoffs(paper, scroll, height);
    this.drawSelection(paper, scroll);
    this.drawTop(width);
    this.took = performance.now() - began;
  }

  drawLane(paper, place, scroll, width) {
    const { view, colours } = this;
    const y = place.y - scroll;
    if (place.number % 2) {
      paper.fillStyle = colours.lane;
      paper.globalAlpha = 0.6;
      paper.fillRect(0, y, width, place.height);
      paper.globalAlpha = 1;
    }
    paper.fillStyle = colours.rule;
    paper.fillRect(0, y + place.height - 1, width, 1);
    paper.save();
    paper.beginPath();
    paper.rect(view.gutter, y, view.plot, place.height);
    paper.clip();
    for (const { row, y: at, height, thin } of place.rows) {
      const where = at - scroll;
      const dim = view.hits ? 0.4 : 1;
      this.drawSpans(paper, row, where, height, thin, dim);
      this.drawChosen(paper, row.drops, where + height - 5, 5, true, colours.drop);
      if (view.hits) this.drawChosen(paper, view.hits[row.number], where, height, thin, null);
      this.drawChosen(paper, row.waits, where, height, thin, colours.warn);
    }
    if (place.graph) this.drawGraph(paper, place.graph, place.graph.y - scroll);
    paper.restore();
  }

  /** What was counted between readings, in steps; as high as its place is the most of any lane. */
  drawGraph(paper, { times, rates, height }, y) {
    const { view, colours } = this;
    const { counter } = view;
    const foot = y + height;
    const end = view.from + view.span;
    paper.fillStyle = colours.graph;
    let highest = 0;
    for (let i = Math.max(0, lowerBound(times, 0, times.length, view.from) - 1); i < rates.length && times[i] < end; i++) {
      highest = Math.max(highest, rates[i]);
      const [x0, x1] = [Math.max(view.x(times[i]), view.gutter), Math.min(view.x(times[i + 1]), view.width)];
      const high = rates[i] > 0 ? Math.max(1, (rates[i] / counter.most) * (height - 2)) : 0;
      if (x1 > x0) paper.fillRect(x0, foot - high, Math.max(1, x1 - x0), high);
    }
    paper.fillStyle = colours.rule;
    paper.fillRect(view.gutter, foot - 1, view.plot, 1);
    paper.fillStyle = colours.ink;
    paper.fillText(`${counter.name}: up to ${rateText(counter, highest)}`, view.gutter + 4, y + 8);
  }

  /** A row's spans. What is narrower than two pixels is drawn with all that begins in its pixel, the paler the less they fill of it. */
  drawSpans(paper, row, y, height, thin, dim) {
    const { trace, view, colours } = this;
    const { from, sum } = trace;
    const pixel = view.pixel;
    const end = view.from + view.span;
    let i = lowerBound(from, row.base, row.end, view.from);
    if (i > row.base && trace.ends(i - 1) > view.from) i--;
    // Pixels alike, side by side, are one stroke.
    let run = null;
    const flush = () => {
      if (!run) return;
      paper.globalAlpha = run.alpha * dim;
      paper.fillStyle = run.colour;
      paper.fillRect(run.x, y, run.to - run.x, height);
      run = null;
    };
    while (i < row.end && from[i] < end) {
      const took = sum[i + 1] - sum[i];
      if (took >= 2 * pixel) {
        flush();
        paper.globalAlpha = dim;
        this.drawOne(paper, i, y, height, thin);
        i++;
        continue;
      }
      const bucket = Math.floor(from[i] / pixel);
      let j = gallop(from, i, row.end, (bucket + 1) * pixel);
      if (j <= i) j = i + 1;
      if (j - 1 > i && sum[j] - sum[j - 1] >= 2 * pixel) j--;
      const busy = (sum[j] - sum[i]) / pixel;
      const x = Math.floor(view.x(bucket * pixel) + 0.5);
      const alpha = busy === 0 ? 0.85 : Math.min(1, 0.25 + Math.ceil(busy * 6) / 8);
      const name = trace.name[this.longest(i, j)];
      const colour = colours.ofName[name];
      if (trace.kindOfName[name] === trace.drops) {
        // Drops are marks at the foot of their row, which are drawn later.
        i = j;
        continue;
      }
      if (run && run.to >= x && run.alpha === alpha && run.colour === colour) run.to = x + 1;
      else {
        flush();
        run = { x, to: x + (busy === 0 || j - i === 1 ? 1.5 : 1), alpha, colour };
      }
      i = j;
    }
    flush();
    paper.globalAlpha = 1;
  }

  /** The longest of some spans; of many, of a sample. */
  longest(i, j) {
    const step = Math.max(1, Math.floor((j - i) / 12));
    let best = i;
    for (let k = i; k < j; k += step) if (this.trace.took(k) > this.trace.took(best)) best = k;
    return best;
  }

  /** One span, with its name where there is room. */
  drawOne(paper, id, y, height, thin, colour = this.colours.ofName[this.trace.name[id]]) {
    const { trace, view } = this;
    const x0 = Math.max(view.x(trace.from[id]), view.gutter - 2);
    const x1 = Math.min(view.x(trace.ends(id)), view.width + 2);
    paper.fillStyle = colour;
    paper.fillRect(x0, y, Math.max(1, x1 - x0 - (x1 - x0 > 4 ? 0.6 : 0)), height);
    if (thin || x1 - x0 < 26) return;
    const wait = trace.kindOfName[trace.name[id]] === trace.waits;
    const room = Math.floor((x1 - x0 - 6) / 5.6);
    const text = trace.text(id);
    paper.fillStyle = wait ? this.colours["warn-ink"] : trace.kind(id) === "sleep" ? this.colours.soft : this.colours["span-ink"];
    paper.fillText(text.length > room ? `${text.slice(0, Math.max(1, room - 1))}…` : text, x0 + 3, y + height / 2 + 0.5);
  }

  /** Some of a row's spans over the others: at least two pixels wide. */
  drawChosen(paper, ids, y, height, thin, colour) {
    if (!ids || ids.length === 0) return;
    const { trace, view } = this;
    const { from } = trace;
    const pixel = view.pixel;
    const end = view.from + view.span;
    const at = (time, lo) => {
      let hi = ids.length;
      while (lo < hi) {
        const middle = (lo + hi) >>> 1;
        if (from[ids[middle]] < time) lo = middle + 1;
        else hi = middle;
      }
      return lo;
    };
    let k = Math.max(0, at(view.from, 0) - 1);
    while (k < ids.length && from[ids[k]] < end) {
      const id = ids[k];
      if (trace.took(id) >= 2 * pixel) {
        this.drawOne(paper, id, y, height, thin, colour || undefined);
        k++;
        continue;
      }
      const bucket = Math.floor(from[id] / pixel);
      let next = at((bucket + 1) * pixel, k + 1);
      // The last of them may be long.
      if (next - 1 > k && trace.took(ids[next - 1]) >= 2 * pixel) next--;
      if (trace.ends(id) >= view.from) {
        paper.fillStyle = colour || this.colours.ofName[trace.name[id]];
        paper.fillRect(Math.floor(view.x(bucket * pixel) + 0.5), y, 2, height);
      }
      k = next;
    }
  }

  /** Arrows from who gives to who takes: of the selected span, and of all where they are few. */
  drawHandoffs(paper, scroll, height) {
    const { trace, view } = this;
    const times = trace.handoffTimes;
    const lo = lowerBound(times, 0, times.length, view.from);
    const hi = lowerBound(times, 0, times.length, view.from + view.span);
    paper.save();
    paper.beginPath();
    paper.rect(view.gutter, 0, view.plot, height);
    paper.clip();
    if (hi - lo <= 120) {
      for (let i = lo; i < hi; i++) {
        const n = trace.handoffs[i];
        this.drawArrow(paper, trace.givers[n], trace.takers[n], scroll, false);
      }
    }
    if (view.selected >= 0) {
      const { gives, takes } = trace.partners(view.selected);
      gives.forEach((to) => this.drawArrow(paper, view.selected, to, scroll, true));
      takes.forEach((from) => this.drawArrow(paper, from, view.selected, scroll, true));
    }
    paper.restore();
  }

  drawArrow(paper, giver, taker, scroll, strong) {
    const { trace, view, colours } = this;
    const [a, b] = [giver, taker].map((id) => view.placeOfRow.get(trace.rowOf(id)));
    if (!a || !b || (a === b && !strong)) return;
    // What is handed over can be taken before the giver is done with it.
    const arrives = trace.from[taker];
    const leaves = Math.max(trace.from[giver], Math.min(trace.ends(giver), arrives));
    const [x0, x1] = [view.x(leaves), view.x(arrives)];
    const [y0, y1] = [a, b].map((p) => p.y + p.height / 2 - scroll);
    const bend = Math.max(12, Math.abs(x1 - x0) / 3);
    paper.strokeStyle = strong ? colours.accent : colours.soft;
    paper.fillStyle = paper.strokeStyle;
    paper.lineWidth = strong ? 2 : 1;
    paper.globalAlpha = strong ? 1 : 0.6;
    paper.beginPath();
    paper.moveTo(x0, y0);
    paper.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1 - 4, y1);
    paper.stroke();
    paper.beginPath();
    paper.moveTo(x1, y1);
    paper.lineTo(x1 - 6, y1 - 3.5);
    paper.lineTo(x1 - 6, y1 + 3.5);
    paper.fill();
    paper.globalAlpha = 1;
    paper.lineWidth = 1;
  }

  drawSelection(paper, scroll) {
    const { trace, view, colours } = this;
    const place = view.selected >= 0 && view.placeOfRow.get(trace.rowOf(view.selected));
    if (!place) return;
    const x0 = Math.max(view.x(trace.from[view.selected]), view.gutter - 4);
    const x1 = Math.min(view.x(trace.ends(view.selected)), view.width + 4);
    if (x1 < view.gutter || x0 > view.width) return;
    paper.lineWidth = 2;
    paper.strokeStyle = colours.ink;
    paper.strokeRect(x0 - 1, place.y - scroll - 1, Math.max(3, x1 - x0) + 2, place.height + 2);
    paper.lineWidth = 1;
  }

  /** Round times, at least 90 pixels apart. */
  ticks() {
    const least = this.view.pixel * 90;
    const power = 10 ** Math.floor(Math.log10(least));
    const step = Math.max(1, [1, 2, 5, 10].map((n) => n * power).find((n) => n >= least));
    const ticks = [];
    for (let t = Math.ceil(Math.max(0, this.view.from) / step) * step; t < this.view.from + this.view.span; t += step) ticks.push(t);
    return { step, ticks };
  }

  drawGrid(paper, height) {
    paper.fillStyle = this.colours.grid;
    for (const t of this.ticks().ticks) paper.fillRect(Math.round(this.view.x(t)), 0, 1, height);
  }

  /** The whole recording with the part that is seen, and times. */
  drawTop(width) {
    const { view, colours } = this;
    const HIGH = 22;
    const paper = this.fit(this.top, width, 46);
    if (!this.overview || this.overview.width !== view.plot) this.overview = this.summarize(view.plot);
    const { busy, waits } = this.overview;
    for (let x = 0; x < busy.length; x++) {
      const high = Math.round((HIGH - 4) * busy[x]);
      paper.fillStyle = colours.accent;
      paper.globalAlpha = 0.35;
      paper.fillRect(view.gutter + x, HIGH - high, 1, high);
      paper.globalAlpha = 1;
      if (!waits[x]) continue;
      paper.fillStyle = colours.warn;
      paper.fillRect(view.gutter + x, HIGH - Math.max(3, Math.round((HIGH - 4) * waits[x])), 1, HIGH);
    }
    paper.fillStyle = colours.page;
    paper.fillRect(view.gutter, HIGH, view.plot, HIGH);
    const scale = view.plot / this.trace.length;
    const x0 = view.gutter + Math.max(0, view.from) * scale;
    const x1 = view.gutter + Math.min(this.trace.length, view.from + view.span) * scale;
    paper.strokeStyle = colours.ink;
    paper.strokeRect(Math.round(x0) + 0.5, 0.5, Math.max(3, Math.round(x1 - x0) - 1), HIGH);
    paper.fillStyle = colours.soft;
    paper.fillText("whole recording", 8, HIGH / 2);
    paper.fillText("time", 8, 35);
    const { step, ticks } = this.ticks();
    for (const t of ticks) {
      paper.fillStyle = colours.grid;
      paper.fillRect(Math.round(view.x(t)), 26, 1, 20);
      paper.fillStyle = colours.soft;
      paper.fillText(moment(t, step), Math.round(view.x(t)) + 4, 35);
    }
  }

  /** Of each pixel of the whole time: how much of it threads work, and wait for locks, in the mean over threads that do anything. */
  summarize(width) {
    const { trace } = this;
    const [busy, waits] = [new Float32Array(width), new Float32Array(width)];
    const pixel = trace.length / width;
    const works = trace.lanes.flatMap((lane) => lane.strips.filter((s) => s.what === "work"));
    const fill = (to, id) => {
      const [from, ends] = [trace.from[id] / pixel, trace.ends(id) / pixel];
      for (let x = Math.floor(from); x <= Math.min(ends, width - 1); x++) {
        to[x] += Math.max(0, Math.min(ends, x + 1) - Math.max(from, x)) / works.length;
      }
    };
    const sleep = trace.kinds.indexOf("sleep");
    for (const strip of works) {
      const row = strip.rows[0];
      for (let id = row.base; id < row.end; id++) if (trace.kindOfName[trace.name[id]] !== sleep) fill(busy, id);
      for (const { waits: ids } of strip.rows) for (const id of ids) fill(waits, id);
    }
    for (let x = 0; x < width; x++) [busy[x], waits[x]] = [Math.min(1, busy[x]), Math.min(1, waits[x])];
    return { width, busy, waits };
  }
}
