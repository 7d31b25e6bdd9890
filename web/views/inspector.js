// SPDX-License-Identifier: MIT OR Apache-2.0
// What is known of one element of the graph. It is built when another is chosen; after that only numbers change.

import { h, percent, put, short, text } from "../dom.js";

/** Lines of numbers of an element. */
const lines = (element) => [
  ["packets/s", short(element.packets_per_s)], ["busy", percent(element.busy_share)],
  ["cycles/packet", short(element.cycles_per_packet)], ["drops/s", short(element.dropped_per_s)],
  ...element.workers.map((load) => [`worker ${load.worker}`, `${short(Math.max(load.packets_per_s, load.received_per_s ?? 0))}/s · ${percent(load.busy_share)}`]),
];

/** The part of the page; `go(name)` is called when another element is picked in it. */
export function inspector(go) {
  const numbers = h("tbody");
  const element = h("aside", { "aria-label": "Element" });
  let [shown, edges] = [null, []];

  function show(graph, name) {
    const found = graph?.elements.find((one) => one.name === name);
    [shown, edges] = [found?.name ?? null, []];
    if (!found) {
      element.replaceChildren(h("p.faint", {}, graph?.width === null
        ? "There are too many elements for a drawing; find one by its name."
        : "Choose an element in the drawing, or find it by its name."));
      return;
    }
    const list = (mine, other) => graph.edges.flatMap((edge, at) => {
      if (edge[mine] !== found.name) return [];
      const words = h("span");
      edges.push([at, words]);
      return [h("li", {}, h("button", { type: "button", onclick: () => go(edge[other]) }, edge[other]), " ", words)];
    });
    numbers.replaceChildren();
    const [from, to] = [list("to", "from"), list("from", "to")];
    element.replaceChildren();
    put(element,
      h("h2", { role: "status" }, found.name),
      h("p", {}, found.class, found.config ? h("code", {}, ` (${found.config.slice(0, 300)})`) : null),
      h("table", {}, h("caption.skip", {}, "Load"), numbers),
      from.length ? [h("h2", {}, "From"), h("ul.marks", {}, from)] : null,
      to.length ? [h("h2", {}, "To"), h("ul.marks", {}, to)] : null,
      h("p", {}, h("a", { href: `#/trace/${encodeURIComponent(found.name)}` }, "Trace packets here"), " · ", h("a", { href: `#/capture/${encodeURIComponent(found.name)}` }, "Capture here")));
    refresh(graph);
  }

  /** Brings numbers up to date. */
  function refresh(graph) {
    const found = shown && graph.elements.find((one) => one.name === shown);
    if (!found) return;
    const all = lines(found);
    while (numbers.children.length > all.length) numbers.lastChild.remove();
    all.forEach(([title, value], at) => {
      if (!numbers.children[at]) numbers.append(h("tr", {}, h("th", { scope: "row" }), h("td.number")));
      text(numbers.children[at].children[0], title);
      text(numbers.children[at].children[1], value);
    });
    for (const [at, words] of edges) {
      const edge = graph.edges[at];
      text(words, `${short(edge.packets_per_s)}/s${edge.hand_off ? " (hand-off)" : ""}`);
    }
  }

  return { element, show, refresh };
}
