// SPDX-License-Identifier: MIT OR Apache-2.0
// The configuration as a graph, with the load of each element and core.

import { get, of } from "../api.js";
import { h, percent, put, short } from "../dom.js";
import { CORES, COST, Drawing, core } from "../draw.js";

/** The graph is fetched again after so many looks. */
const EVERY = 2;

export async function graph(main, shared, [first]) {
  const canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": "Elements and connections. Arrow keys follow connections, + and - zoom, 0 shows all." });
  const about = h("aside", { "aria-live": "polite" });
  const legend = h("div.legend");
  const drawing = new Drawing(canvas, (name) => { chosen = name; tell(); });
  let [seen, chosen, looks] = [null, first ?? null, 0];
  const search = h("input", { type: "search", placeholder: "Find an element", "aria-label": "Find an element", list: "elements" });
  const names = h("datalist", { id: "elements" });
  const find = () => {
    drawing.found = search.value.trim().toLowerCase() || null;
    const exact = seen?.elements.find((e) => e.name === search.value.trim());
    if (exact) { chosen = exact.name; drawing.centre(chosen); tell(); }
    drawing.draw();
  };
  search.addEventListener("input", find);
  const by = h("select", { "aria-label": "Colour" }, h("option", { value: "cost" }, "by cost"), h("option", { value: "core" }, "by core"));
  by.addEventListener("change", () => { drawing.by = by.value; drawing.draw(); key(); });
  const button = (label, run) => h("button", { type: "button", onclick: run }, label);
  put(main,
    h("div.bar", {}, search, names, h("label", {}, "Colours ", by), button("Whole", () => drawing.fit()), button("+", () => drawing.zoom(1.25)), button("−", () => drawing.zoom(0.8)), legend),
    h("div.graph", {}, canvas, about));

  function key() {
    const swatch = (colour, label) => { const mark = h("i"); mark.style.background = colour; return h("span", {}, mark, label); };
    const marks = drawing.by === "cost"
      ? COST.map((colour, at) => swatch(colour, ["under 2 % of a core", "2 %", "10 %", "25 %", "50 % and more"][at]))
      : (seen?.workers ?? []).slice(0, CORES.length).map((worker) => swatch(core(worker.worker), `worker ${worker.worker}`));
    legend.replaceChildren(...marks, h("span", {}, h("b.warn", {}, "- - "), "hand-off between cores; width: packets/s; red below: drops"));
  }

  function tell() {
    const element = seen?.elements.find((e) => e.name === chosen);
    if (!element) {
      about.replaceChildren(h("p.faint", {}, seen?.width === null
        ? "There are too many elements for a drawing; find one by its name."
        : "Choose an element in the drawing, or find it by its name."));
      return;
    }
    const row = (title, value) => h("tr", {}, h("th", { scope: "row" }, title), h("td.number", {}, value));
    const link = (name) => h("button", { type: "button", onclick: () => { chosen = name; drawing.centre(name); tell(); } }, name);
    const edges = (mine, other) => seen.edges.filter((edge) => edge[mine] === element.name).map((edge) => h("li", {}, link(edge[other]), " ", short(edge.packets_per_s), "/s", edge.hand_off ? " (hand-off)" : ""));
    about.replaceChildren(
      h("h2", {}, element.name),
      h("p", {}, element.class, element.config ? h("code", {}, ` (${element.config.slice(0, 300)})`) : null),
      h("table", {}, row("packets/s", short(element.packets_per_s)), row("busy", percent(element.busy_share)),
        row("cycles/packet", short(element.cycles_per_packet)), row("drops/s", short(element.dropped_per_s)),
        element.workers.map((load) => row(`worker ${load.worker}`, `${short(load.packets_per_s)}/s · ${percent(load.busy_share)}`))),
      h("h2", {}, "From"), h("ul.marks", {}, edges("to", "from")),
      h("h2", {}, "To"), h("ul.marks", {}, edges("from", "to")),
      h("p", {}, h("a", { href: `#/trace/${encodeURIComponent(element.name)}` }, "Trace packets here"), " · ", h("a", { href: `#/capture/${encodeURIComponent(element.name)}` }, "Capture here")));
  }

  async function fetch_graph() {
    seen = await get(of(shared.router, "graph"));
    const known = new Set([...names.children].map((option) => option.value));
    if (known.size !== seen.elements.length) names.replaceChildren(...seen.elements.map((e) => h("option", { value: e.name })));
    drawing.chosen = chosen;
    drawing.set(seen);
    key();
    tell();
  }
  const resize = new ResizeObserver(() => drawing.draw());
  resize.observe(canvas);
  shared.left.signal.addEventListener("abort", () => resize.disconnect());
  await fetch_graph();
  // Who has typed meanwhile is answered now.
  if (search.value) find();
  else if (chosen) drawing.centre(chosen);
  let busy = false;
  shared.on(() => {
    looks += 1;
    if (busy || looks % EVERY) return;
    busy = true;
    fetch_graph().catch(() => {}).finally(() => { busy = false; });
  });
}
