// The page itself: pointer, keys, the address, and when to draw.

class Viewer {
  constructor(trace) {
    this.trace = trace;
    this.view = new View(trace);
    this.scroller = byId("scroller");
    this.painter = new Painter(this.view, byId("canvas"), byId("top"), this.scroller);
    this.search = new Search(trace);
    this.list = new EventList(trace, this.view, this.search, (id, reveal) => this.select(id, reveal));
    showSummary(trace, (query) => this.find(query, true));
    this.makeLabels();
    this.makeLegend();
    this.makeCounters();
    this.listen();
    this.view.all();
    this.readAddress();
    new ResizeObserver(() => this.redraw()).observe(this.scroller);
    this.redraw();
  }

  /** Draws in the next frame, once. */
  redraw() {
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      this.painter.draw();
      this.placeLabels();
      const { from, span } = this.view;
      const step = 10 ** Math.floor(Math.log10(Math.max(1, span / 100)));
      byId("range").textContent = `${moment(Math.max(0, from), step)} + ${duration(span)}`;
      this.list.update();
      this.writeAddress();
      document.body.dataset.state = "ready";
    });
  }

  makeLabels() {
    this.labels = this.view.places.map((place) => {
      const label = make("button", { class: "lane-label", type: "button", "aria-expanded": "true", title: "Fold or unfold" }, make("span", {}, place.lane.name));
      if (place.lane.note) label.append(make("small", {}, place.lane.note));
      label.addEventListener("click", () => {
        const { folded } = this.view;
        if (!folded.delete(place.number)) folded.add(place.number);
        label.setAttribute("aria-expanded", String(!folded.has(place.number)));
        this.view.layOut();
        this.redraw();
      });
      return label;
    });
    byId("labels").replaceChildren(...this.labels);
  }

  placeLabels() {
    const box = byId("labels");
    box.style.width = `${this.view.gutter}px`;
    box.style.height = `${this.view.height}px`;
    this.view.places.forEach((place, i) => {
      this.labels[i].style.top = `${place.y}px`;
      this.labels[i].style.height = `${place.height - 1}px`;
    });
  }

  makeLegend() {
    const items = Object.entries(this.painter.colours.byKind).map(([kind, colour]) => {
      const swatch = make("span", { class: "swatch" });
      swatch.style.background = colour;
      return make("li", {}, swatch, kind);
    });
    items.push(make("li", {}, "batches in elements: a colour for each element"));
    byId("legend").replaceChildren(...items);
  }

  /** The choice of what lanes show that was counted; the first of all to begin with. */
  makeCounters() {
    const { counters } = this.trace;
    byId("counted").hidden = !counters.length;
    byId("counter").replaceChildren(...["no counter", ...counters.map((c) => (c.user_only ? `${c.name} (not in the kernel)` : c.name))].map((name, i) => make("option", { value: i - 1 }, name)));
    this.showCounter(counters.length ? 0 : -1);
  }

  showCounter(number) {
    byId("counter").value = number;
    this.view.counter = this.trace.counters[number] || null;
    this.view.layOut();
    this.redraw();
  }

  select(id, reveal = false) {
    this.view.selected = id;
    if (id >= 0 && reveal) {
      const row = this.trace.rowOf(id);
      if (this.view.folded.has(row.lane) && !this.view.placeOfRow.has(row)) this.labels[row.lane].click();
      this.view.reveal(id);
      const place = this.view.placeOfRow.get(row);
      const { scrollTop, clientHeight } = this.scroller;
      if (place.y < scrollTop || place.y + place.height > scrollTop + clientHeight) this.scroller.scrollTop = place.y - clientHeight / 2;
    }
    showDetails(this.trace, this.painter.colours, id, (other) => this.select(other, true));
    this.sayMatches();
    this.redraw();
  }

  /** Searches; with `go`, goes to the first match from here. */
  find(query, go = false) {
    byId("query").value = query;
    this.search.set(query);
    this.view.hits = this.search.hits;
    this.sayMatches();
    if (go) this.step(1);
    this.redraw();
  }

  step(step) {
    const id = this.search.step(this.view.selected, this.view.from, step);
    if (id >= 0) this.select(id, true);
  }

  sayMatches() {
    const { places, active } = this.search;
    const number = this.search.number(this.view.selected);
    const of = number ? `${number.toLocaleString("en")} of ` : "";
    byId("matches").textContent = active ? `${of}${places.length ? plural(places.length, "match").replace("matchs", "matches") : "no match"}` : "";
  }

  /** The span below the pointer, or so near that it is meant. */
  spanAt(x, y) {
    const { trace, view } = this;
    if (x < view.gutter) return -1;
    const at = y + this.scroller.scrollTop;
    const place = view.places.flatMap((p) => p.rows).find((r) => at >= r.y - 1 && at < r.y + r.height + 1);
    if (!place) return -1;
    const { row } = place;
    const time = view.time(x);
    const near = 3 * view.pixel;
    // What is drawn over others is meant first.
    for (const ids of [row.waits, row.drops, view.hits ? view.hits[row.number] : []]) {
      let [lo, hi] = [0, ids.length];
      while (lo < hi) {
        const middle = (lo + hi) >>> 1;
        if (trace.from[ids[middle]] <= time) lo = middle + 1;
        else hi = middle;
      }
      for (const id of [ids[lo - 1], ids[lo]]) {
        if (id !== undefined && trace.from[id] - near <= time && trace.ends(id) + near >= time) return id;
      }
    }
    const after = lowerBound(trace.from, row.base, row.end, time);
    const within = [after - 1, after].filter((i) => i >= row.base && i < row.end);
    const distance = (i) => Math.max(0, trace.from[i] - time, time - trace.ends(i));
    const best = within.sort((a, b) => distance(a) - distance(b))[0];
    return best !== undefined && distance(best) <= near ? best : -1;
  }

  listen() {
    const { view, scroller } = this;
    const on = (id, what, then) => byId(id).addEventListener(what, then);
    on("in", "click", () => this.zoom(0.5));
    on("out", "click", () => this.zoom(2));
    on("fit", "click", () => this.showAll());
    on("to-selection", "click", () => this.showSelection());
    on("counter", "change", (e) => this.showCounter(Number(e.target.value)));
    on("show-help", "click", () => byId("help").showModal());
    on("search", "submit", (e) => {
      e.preventDefault();
      this.step(1);
    });
    on("previous", "click", () => this.step(-1));
    on("query", "input", (e) => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.find(e.target.value), this.trace.count > 2e5 ? 200 : 0);
    });
    on("query", "keydown", (e) => {
      if (e.key === "Escape") this.find("");
      if (e.key !== "Enter") return;
      e.preventDefault();
      clearTimeout(this.typing);
      if (this.search.query !== e.target.value.trim()) this.find(e.target.value);
      this.step(e.shiftKey ? -1 : 1);
    });
    scroller.addEventListener("scroll", () => this.redraw());
    scroller.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    this.listenToPointer();
    document.addEventListener("keydown", (e) => this.key(e));
    addEventListener("hashchange", () => this.readAddress());
    for (const query of ["(prefers-color-scheme: dark)", "print"]) {
      matchMedia(query).addEventListener("change", () => {
        this.painter.recolour();
        this.makeLegend();
        // Printing does not wait for the next frame.
        this.painter.draw();
        this.redraw();
      });
    }
  }

  wheel(e) {
    const { view } = this;
    const x = e.clientX - this.scroller.getBoundingClientRect().left;
    const unit = e.deltaMode === 1 ? 30 : e.deltaMode === 2 ? 300 : 1;
    if (x < view.gutter && !e.ctrlKey) return;
    e.preventDefault();
    if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      view.move(((e.deltaX || e.deltaY) * unit) / view.plot);
    } else {
      view.zoom(Math.exp((Math.min(300, Math.max(-300, e.deltaY * unit)) * 1.5) / 600), x);
    }
    this.redraw();
  }

  listenToPointer() {
    const { view, scroller } = this;
    let drag = null;
    const tip = byId("tip");
    const place = (e) => {
      const box = scroller.getBoundingClientRect();
      return [e.clientX - box.left, e.clientY - box.top];
    };
    scroller.addEventListener("pointerdown", (e) => {
      if (e.button !== 0 || e.target.closest(".lane-label")) return;
      drag = { x: e.clientX, y: e.clientY, from: view.from, top: scroller.scrollTop, moved: false };
      scroller.setPointerCapture(e.pointerId);
      tip.hidden = true;
    });
    scroller.addEventListener("pointermove", (e) => {
      if (!drag) return this.hover(e, ...place(e));
      const [dx, dy] = [e.clientX - drag.x, e.clientY - drag.y];
      drag.moved ||= Math.abs(dx) + Math.abs(dy) > 4;
      if (!drag.moved) return;
      scroller.classList.add("dragging");
      view.show(drag.from - dx * view.pixel, view.span);
      scroller.scrollTop = drag.top - dy;
      this.redraw();
    });
    const end = (e) => {
      if (drag && !drag.moved && e.type === "pointerup") this.select(this.spanAt(...place(e)));
      drag = null;
      scroller.classList.remove("dragging");
    };
    scroller.addEventListener("pointerup", end);
    scroller.addEventListener("pointercancel", end);
    scroller.addEventListener("pointerleave", () => (tip.hidden = true));
    const top = byId("top");
    const jump = (e) => {
      if (!e.buttons) return;
      const x = e.clientX - top.getBoundingClientRect().left - view.gutter;
      view.show((x / view.plot) * this.trace.length - view.span / 2, view.span);
      this.redraw();
    };
    top.addEventListener("pointerdown", (e) => {
      top.setPointerCapture(e.pointerId);
      jump(e);
    });
    top.addEventListener("pointermove", jump);
  }

  hover(e, x, y) {
    const tip = byId("tip");
    const id = e.target.closest(".lane-label") ? -1 : this.spanAt(x, y);
    const text = id < 0 ? this.countedAt(x, y) : this.spanText(id);
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    tip.style.left = `${Math.max(4, Math.min(e.clientX + 12, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${Math.min(e.clientY + 16, innerHeight - tip.offsetHeight - 8)}px`;
  }

  spanText(id) {
    const packets = this.trace.packets[id] ? `, ${plural(this.trace.packets[id] - 1, "packet")}` : "";
    return `${this.trace.text(id)}: ${this.trace.took(id) ? duration(this.trace.took(id)) : "a moment"}${packets}`;
  }

  /** What was counted where the pointer is, if it is on a graph. */
  countedAt(x, y) {
    const { view, trace } = this;
    const at = y + this.scroller.scrollTop;
    const place = view.places.find((p) => p.graph && at >= p.graph.y && at < p.graph.y + p.graph.height);
    if (!place || x < view.gutter) return "";
    return ratesText(trace.counters, place.number, view.time(x));
  }

  zoom(factor) {
    this.view.zoom(factor);
    this.redraw();
  }

  showAll() {
    this.view.all();
    this.redraw();
  }

  showSelection() {
    if (this.view.selected < 0) return;
    this.view.reveal(this.view.selected, true);
    this.redraw();
  }

  /** The span before or after the selected one, in its row. */
  neighbour(step) {
    const { selected } = this.view;
    if (selected < 0) return;
    const row = this.trace.rowOf(selected);
    const next = selected + step;
    if (next >= row.base && next < row.end) this.select(next, true);
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, select, dialog")) return;
    const scroll = (by) => {
      this.scroller.scrollTop += by;
    };
    const move = (by) => {
      this.view.move(by);
      this.redraw();
    };
    if (e.target.id === "list" && e.key.startsWith("Arrow")) return;
    const keys = {
      w: () => this.zoom(0.7), "+": () => this.zoom(0.7), "=": () => this.zoom(0.7),
      s: () => this.zoom(1 / 0.7), "-": () => this.zoom(1 / 0.7),
      a: () => move(-0.15), d: () => move(0.15), ArrowLeft: () => move(-0.15), ArrowRight: () => move(0.15),
      ArrowUp: () => scroll(-60), ArrowDown: () => scroll(60),
      0: () => this.showAll(), Home: () => this.showAll(), f: () => this.showSelection(),
      ",": () => this.neighbour(-1), ".": () => this.neighbour(1),
      "/": () => byId("query").select(), "?": () => byId("help").showModal(),
      Escape: () => this.select(-1),
    };
    const then = e.key === "N" ? () => this.step(-1) : e.key === "n" ? () => this.step(1) : keys[e.key] || keys[e.key.toLowerCase()];
    if (!then) return;
    e.preventDefault();
    if (e.key === "/") byId("query").focus();
    then();
  }

  /** The part that is seen, the search and the selection stand in the address: #t=NANOSECONDS&d=NANOSECONDS&c=COUNTER&q=SEARCH&s=SPAN. */
  readAddress() {
    if (location.hash === this.address) return;
    const told = new URLSearchParams(location.hash.slice(1));
    const number = (name) => (told.has(name) && Number.isFinite(Number(told.get(name))) ? Number(told.get(name)) : undefined);
    const [from, span, selected] = ["t", "d", "s"].map(number);
    if (from !== undefined && span > 0) this.view.show(from, span);
    if (told.has("c")) this.showCounter(this.trace.counters.findIndex((c) => c.name === told.get("c")));
    if (told.has("q")) this.find(told.get("q"));
    if (selected !== undefined && Number.isInteger(selected) && selected >= 0 && selected < this.trace.count) this.select(selected, from === undefined);
    this.redraw();
  }

  writeAddress() {
    const told = new URLSearchParams({ t: Math.round(this.view.from), d: Math.round(this.view.span) });
    if (this.search.active) told.set("q", this.search.query);
    const { counter } = this.view;
    if (counter !== (this.trace.counters[0] || null)) told.set("c", counter ? counter.name : "none");
    if (this.view.selected >= 0) told.set("s", this.view.selected);
    this.address = `#${told}`;
    clearTimeout(this.writing);
    // Browsers refuse to have it changed a hundred times a second.
    this.writing = setTimeout(() => history.replaceState(null, "", this.address), 250);
  }
}

/** For whoever looks into the page by its console. */
let viewer;

(async () => {
  try {
    const data = byId("data");
    // A page that is served without a recording has a script that fetches one.
    const bytes = await unpack(data.textContent.trim() || (await window.fetchRecording()));
    data.remove();
    viewer = new Viewer(new Trace(bytes));
  } catch (e) {
    document.body.dataset.state = "failed";
    byId("facts").className = "failed";
    byId("facts").textContent = `This page cannot show its recording: ${e.message}`;
    throw e;
  }
})();
