// What stands around the timeline: findings, the selected span, the list of events, the search. All text of a recording is set as text, never as markup.

/** An element with attributes and children; strings are text. */
function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

const byId = (id) => document.getElementById(id);

function percent(share) {
  return `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;
}

/** The head of the page, findings, what the recording lacks, and locks. */
function showSummary(trace, searchFor) {
  const { recording, report, lacks } = trace.header;
  const title = recording.command || "Recording of a router";
  document.title = `${title} – Junctor`;
  byId("title").textContent = title;
  byId("title").title = title;
  const facts = [
    duration(trace.length),
    plural(report.events, "engine event"),
    plural(report.kernel_events, "kernel event"),
    `${report.lost.toLocaleString("en")} lost`,
  ];
  if (report.one_in > 1) facts.push(`one in ${report.one_in} runs of tasks`);
  byId("facts").textContent = facts.join(" · ");
  const found = report.findings;
  const head = [found.length ? plural(found.length, "finding") : "No findings", lacks.length ? plural(lacks.length, "gap") : "no gaps"];
  if (!report.kernel_events) head.push("no events of the kernel");
  const items = found.map((f) => {
    const item = make("li", {}, `${f.text} `);
    if (f.kind === "lock") item.append(make("button", { class: "link", type: "button", onclick: () => searchFor(`"wait for lock of ${f.subject}"`) }, "show the waits"));
    item.append(make("br"), make("span", { class: "mend" }, `→ ${f.mend}`));
    return item;
  });
  const nothing = make("p", {}, "No lock, queue, interrupt or neighbour costs this router worth a word.");
  const body = [];
  if (report.fired) {
    const { at_ms, condition, what } = report.fired;
    head.unshift(condition);
    body.push(make("div", { class: "box" }, make("h2", {}, "What was waited for"), make("p", {}, `${condition} after ${duration(at_ms * 1e6)}: ${what}`)));
  } else if (report.until.length) {
    body.push(make("div", { class: "box" }, make("h2", {}, "What was waited for"), make("p", {}, `${report.until.join(", ")}: has not happened`)));
  }
  byId("summary-head").textContent = `${head.join(" · ")}${found.length ? ` — ${found[0].text}` : ""}`;
  body.push(make("div", { class: "box" }, make("h2", {}, "Findings"), items.length ? make("ul", {}, ...items) : nothing));
  if (lacks.length) {
    body.push(make("div", { class: "box lacks" }, make("h2", {}, "What this recording lacks"), make("ul", {}, ...lacks.map((l) => make("li", {}, l)))));
  }
  const locks = report.locks.filter((l) => l.contended > 0);
  if (locks.length) body.push(lockTable(locks, searchFor));
  const made = [recording.program, recording.cpu, recording.kernel, `${recording.cores} processors`, `process ${recording.pid}`, `events: ${recording.events}`];
  body.push(make("p", { class: "soft" }, made.filter((text) => text).join(" · ")));
  byId("summary-body").replaceChildren(...body);
}

function lockTable(locks, searchFor) {
  const rows = locks.flatMap((lock) => lock.pairs.map((pair, i) => {
    const name = make("button", { class: "link", type: "button", onclick: () => searchFor(`"wait for lock of ${lock.name}"`) }, lock.name);
    const cells = i ? ["", ""] : [name, lock.at];
    const numbers = [pair.waits.toLocaleString("en"), duration(pair.wait_us * 1e3), i ? "" : percent(lock.share)];
    return make("tr", {}, ...[...cells, pair.waiter, pair.owner].map((c) => make("td", {}, c)), ...numbers.map((n) => make("td", { class: "number" }, n)));
  }));
  const heads = ["Lock", "Made at", "Waiter", "Held by", "Waits", "Waited", "Of their time"];
  const head = make("tr", {}, ...heads.map((h, i) => make("th", { scope: "col", class: i > 3 ? "number" : undefined }, h)));
  return make("div", { class: "box" }, make("h2", {}, "Locks that threads waited for"), make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
}

/** What another lane is to a span, by the span's kind. */
const OTHER = { "lock wait": "Held by", "router's thread": "Thread", running: "On", kernel: "About" };

/** What is known of the selected span. */
function showDetails(trace, colours, id, select) {
  const box = byId("details");
  if (id < 0) {
    box.replaceChildren(make("p", { class: "soft" }, "Click a span to see what it is."));
    return;
  }
  const link = (to, text) => make("button", { class: "link", type: "button", onclick: () => select(to, true) }, text);
  const lane = trace.laneOf(id);
  const took = trace.took(id);
  const kind = trace.kind(id);
  const rows = [["Kind", kind], ["Lane", lane.note ? `${lane.name} (${lane.note})` : lane.name], ["Begins", trace.from[id] < 1e6 ? moment(trace.from[id]) : `${moment(trace.from[id])} (${duration(trace.from[id])})`]];
  rows.push(["Takes", took ? `${duration(took)} (${Math.round(took).toLocaleString("en")} ns)` : "a moment"]);
  if (trace.packets[id]) {
    const packets = trace.packets[id] - 1;
    rows.push(["Packets", packets.toLocaleString("en")]);
    if (packets > 1 && took) rows.push(["A packet", duration(took / packets)]);
  }
  if (trace.other[id]) {
    const other = trace.lanes[trace.other[id] - 1];
    const there = other.strips.flatMap((s) => s.rows).map((row) => trace.at(row, trace.from[id])).filter((i) => i >= 0 && i !== id);
    rows.push([OTHER[kind] || "With", there.length ? link(there[there.length - 1], `${other.name}: ${trace.text(there[there.length - 1])}`) : other.name]);
  } else if (kind === "lock wait") rows.push(["Held by", "nobody any more when this one looked"]);
  const number = trace.rowOf(id).lane;
  const counted = ratesText(trace.counters, number, trace.from[id]);
  if (counted) rows.push(["Counted then", counted]);
  const parent = trace.parent(id);
  if (parent >= 0) rows.push(["Within", link(parent, trace.text(parent))]);
  const { gives, takes } = trace.partners(id);
  for (const [what, others] of [["Hands to", gives], ["Comes from", takes]]) {
    for (const other of others.slice(0, 4)) {
      const wait = what === "Hands to" ? trace.from[other] - trace.ends(id) : trace.from[id] - trace.ends(other);
      rows.push([what, link(other, `${trace.laneOf(other).name}: ${trace.text(other)}, ${duration(Math.max(0, wait))} between`)]);
    }
  }
  const swatch = make("span", { class: "swatch" });
  swatch.style.background = colours.ofName[trace.name[id]];
  const body = rows.map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, value)));
  box.replaceChildren(make("h2", {}, swatch, trace.text(id)), make("table", {}, make("tbody", {}, ...body)));
}

/** The search: which names are wanted, and their spans by time. */
class Search {
  constructor(trace) {
    this.trace = trace;
    this.set("");
  }

  set(query) {
    this.query = query.trim();
    const exact = this.query.match(/^"(.*)"$/);
    const text = (exact ? exact[1] : this.query).toLowerCase();
    this.active = text !== "";
    if (!this.active) {
      this.places = new Uint32Array(0);
      this.hits = null;
      return;
    }
    const { trace } = this;
    const wanted = trace.names.map((name, n) => {
      const low = name.toLowerCase();
      if (text.startsWith("kind:")) return trace.kinds[trace.kindOfName[n]] === text.slice(5).trim();
      return exact ? name === exact[1] : low.includes(text) || trace.kinds[trace.kindOfName[n]] === text;
    });
    let count = 0;
    for (let i = 0; i < trace.count; i++) if (wanted[trace.name[i]]) count++;
    this.places = new Uint32Array(count);
    for (let i = 0, k = 0; k < count; i++) if (wanted[trace.name[trace.order[i]]]) this.places[k++] = i;
    this.hits = trace.rows.map((row) => trace.choose(row, (name) => wanted[name]));
  }

  /** The match after (`step` 1) or before (-1) a span, around the ends; without a span, from a time on. */
  step(id, time, step) {
    const { places, trace } = this;
    if (!places.length) return -1;
    const here = id >= 0 ? trace.place(id) : trace.placeAt(time) - (step > 0 ? 1 : 0);
    let k = lowerBound(places, 0, places.length, step > 0 ? here + 1 : here);
    if (step < 0) k--;
    return trace.order[places[(k + places.length) % places.length]];
  }

  /** Which of the matches a span is, from 1 on; 0 if none. */
  number(id) {
    if (id < 0) return 0;
    const place = this.trace.place(id);
    const k = lowerBound(this.places, 0, this.places.length, place);
    return this.places[k] === place ? k + 1 : 0;
  }
}

/** The list of events that begin in view: as many elements as are seen, however many events. */
class EventList {
  constructor(trace, view, search, select) {
    Object.assign(this, { trace, view, search, select });
    this.box = byId("list");
    this.space = byId("list-space");
    this.only = byId("only");
    this.box.addEventListener("scroll", () => this.fill());
    this.only.addEventListener("change", () => this.update());
    this.box.addEventListener("click", (e) => {
      const row = e.target.closest(".event");
      if (row) select(Number(row.dataset.id), true);
    });
  }

  /** Takes the part that is in view now. */
  update() {
    const { trace, view } = this;
    let [lo, hi] = [trace.placeAt(view.from), trace.placeAt(view.from + view.span)];
    const all = hi - lo;
    this.filtered = this.only.checked && this.search.active;
    if (this.filtered) [lo, hi] = [lo, hi].map((at) => lowerBound(this.search.places, 0, this.search.places.length, at));
    if (this.lo !== lo) this.box.scrollTop = 0;
    [this.lo, this.total] = [lo, hi - lo];
    const matches = this.filtered ? ` of ${plural(all, "event")} in view match` : ` in view`;
    byId("count").textContent = `${this.filtered ? this.total.toLocaleString("en") : plural(this.total, "event")}${matches}`;
    this.box.setAttribute("aria-rowcount", this.total);
    // Browsers have a highest height.
    this.high = Math.min(this.total * 20, 8e6);
    this.space.style.height = `${this.high}px`;
    this.fill();
  }

  /** Which event the list begins with. */
  first() {
    const { scrollTop, clientHeight } = this.box;
    if (this.total * 20 <= 8e6) return Math.floor(scrollTop / 20);
    const share = scrollTop / Math.max(1, this.high - clientHeight);
    return Math.floor(share * Math.max(0, this.total - clientHeight / 20));
  }

  fill() {
    const { trace, box } = this;
    const first = Math.min(this.first(), Math.max(0, this.total - 1));
    const last = Math.min(this.total, first + Math.ceil(box.clientHeight / 20) + 1);
    const top = this.total * 20 <= 8e6 ? first * 20 : box.scrollTop;
    const rows = [];
    for (let k = first; k < last; k++) {
      const at = this.filtered ? this.search.places[this.lo + k] : this.lo + k;
      const id = trace.order[at];
      const packets = trace.packets[id] ? `${(trace.packets[id] - 1).toLocaleString("en")} p` : "";
      const cells = [moment(trace.from[id]), trace.laneOf(id).name, trace.text(id), trace.kind(id), trace.took(id) ? duration(trace.took(id)) : "", packets];
      const wait = trace.kindOfName[trace.name[id]] === trace.waits;
      const row = make("div", { class: `event${wait ? " wait" : ""}${id === this.view.selected ? " chosen" : ""}`, role: "row", "aria-rowindex": k + 1, "data-id": id },
        ...cells.map((c) => make("span", { role: "cell", title: c }, c)));
      row.style.top = `${top + (k - first) * 20}px`;
      rows.push(row);
    }
    this.space.replaceChildren(...rows);
  }
}
