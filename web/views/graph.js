// SPDX-License-Identifier: MIT OR Apache-2.0
// The configuration as a graph, with the load of each element and core. Places are fetched once for each configuration, loads with each look.

import { get, of } from "../api.js";
import { bar, h, percent, put, short, text } from "../dom.js";
import { CORES, COST, Drawing, core } from "../draw.js";
import { losses } from "./drops.js";
import { inspector } from "./inspector.js";

/** Of more elements, loads are fetched with every second look: the service may take 1 % of a core. */
const MANY = 300;

export async function graph(main, shared, [first]) {
  const canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": "Elements and connections. Arrow keys follow connections, + and - zoom, 0 shows all." });
  const legend = h("div.legend");
  const cores = h("div.cores", { role: "group", "aria-label": "Load of cores" });
  const drawing = new Drawing(canvas, choose);
  const about = inspector((name) => { drawing.centre(name); choose(name); });
  let [seen, chosen, known, lost, turn] = [null, first ?? null, "", new Map(), 0];
  const search = h("input", { type: "search", placeholder: "Find an element", "aria-label": "Find an element", list: "elements" });
  const names = h("datalist", { id: "elements" });
  const by = h("select", { "aria-label": "Colour" }, h("option", { value: "cost" }, "by cost"), h("option", { value: "core" }, "by core"));
  const button = (label, run, name) => h("button", { type: "button", onclick: run, "aria-label": name }, label);

  function choose(name) {
    chosen = name;
    about.show(seen, chosen);
  }
  function find() {
    drawing.found = search.value.trim().toLowerCase() || null;
    const exact = seen?.elements.find((e) => e.name === search.value.trim());
    if (exact) { drawing.centre(exact.name); choose(exact.name); }
    drawing.draw();
  }
  search.addEventListener("input", find);
  by.addEventListener("change", () => { drawing.by = by.value; drawing.draw(); key(); });
  put(main,
    h("div.bar", {}, search, names, h("label", {}, "Colours ", by), h("span", {}, button("Whole", () => drawing.fit(), "Show the whole"), " ",
      button("+", () => drawing.zoom(1.25), "Zoom in"), " ", button("−", () => drawing.zoom(0.8), "Zoom out")), cores),
    legend,
    h("div.graph", {}, canvas, about.element));

  function key() {
    const swatch = (colour, label) => { const mark = h("i"); mark.style.background = colour; return h("span", {}, mark, label); };
    const marks = drawing.by === "cost"
      ? COST.map((colour, at) => swatch(colour, ["under 2 % of a core", "2 %", "10 %", "25 %", "50 % and more"][at]))
      : (seen?.workers ?? []).slice(0, CORES.length).map((worker) => swatch(core(worker.worker), `worker ${worker.worker}`));
    legend.replaceChildren(...marks, h("span", {}, h("i.dashes"), "hand-off between cores"), h("span", {}, h("i.lines"), "wider: more packets/s"), h("span", {}, h("i.drops"), "drops"));
  }

  /** A bar for each core. */
  function tell_cores(look) {
    if (cores.children.length !== look.cores.length) cores.replaceChildren(...look.cores.map((one) => bar(one.busy_share, `core ${one.worker}: ${percent(one.busy_share)}`)));
    look.cores.forEach((one, at) => {
      const [fill, words] = cores.children[at].children;
      fill.style.width = `${Math.min(100, 100 * one.busy_share).toFixed(1)}%`;
      text(words, `core ${one.worker}: ${percent(one.busy_share)}`);
    });
  }

  async function fetch_graph() {
    seen = await get(of(shared.router, "graph"));
    for (const element of seen.elements) element.dropped_per_s = lost.get(element.name) ?? 0;
    names.replaceChildren(...seen.elements.map((e) => h("option", { value: e.name })));
    drawing.chosen = chosen;
    drawing.set(seen);
    key();
    about.show(seen, chosen);
  }

  async function fetch_loads() {
    const { elements } = await get(of(shared.router, "graph", "loads"));
    merge(seen, elements, lost);
    drawing.load();
    about.refresh(seen);
  }

  const resize = new ResizeObserver(() => drawing.draw());
  resize.observe(canvas);
  shared.left.signal.addEventListener("abort", () => resize.disconnect());
  await fetch_graph();
  // Who has typed meanwhile is answered now.
  if (search.value) find();
  else if (chosen) drawing.centre(chosen);
  let busy = false;
  shared.on((look) => {
    tell_cores(look);
    lost = losses(look);
    const now = `${look.router.pid} ${look.router.configurations}`;
    const is_same = now === known || !known;
    turn += 1;
    if (busy || (is_same && seen.elements.length > MANY && turn % 2)) return;
    busy = true;
    const fetched = is_same ? fetch_loads() : fetch_graph();
    known = now;
    fetched.catch(() => {}).finally(() => { busy = false; });
  });
}

/** Puts loads into a graph. Elements that are left out are at rest. */
function merge(graph, loads, lost) {
  const by_name = new Map(loads.map((load) => [load.name, load]));
  const rest = { packets_per_s: 0, cycles_per_packet: null, busy_share: null, dropped_per_s: 0, hand_off: false, workers: [], outputs: [] };
  for (const element of graph.elements) Object.assign(element, by_name.get(element.name) ?? rest, { dropped_per_s: lost.get(element.name) ?? 0 });
  for (const edge of graph.edges) {
    const [from, to] = [by_name.get(edge.from) ?? rest, by_name.get(edge.to) ?? rest];
    edge.packets_per_s = from.outputs[edge.output] ?? (from === rest ? 0 : null);
    edge.hand_off = from.hand_off || to.hand_off;
  }
}
