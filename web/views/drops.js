// SPDX-License-Identifier: MIT OR Apache-2.0
// Dropped packets by reason: over time, and since the router started.

import { get, of } from "../api.js";
import { h, put, short, table } from "../dom.js";
import { colour, plot } from "../plot.js";

const LINES = 8;

export async function drops(main, shared) {
  const canvas = h("canvas.plot", { role: "img", "aria-label": "Drops per second by reason" });
  const legend = h("div.legend");
  const { reasons } = await get("/api/v1/drop-reasons");
  const meaning = new Map(reasons.map((reason) => [reason.name, reason.text]));
  const all = table([
    ["reason", (d) => d.reason],
    ["element", (d) => d.element, { show: (name) => h("a", { href: `#/graph/${encodeURIComponent(name)}` }, name) }],
    ["packets/s", (d) => d.packets_per_s, { number: true, show: short }],
    ["packets", (d) => d.packets, { number: true, show: short }],
    ["means", (d) => meaning.get(d.reason) ?? ""],
  ], { by: 3, none: "nothing was dropped", caption: "Drops" });
  put(main, canvas, legend, h("h2", {}, "Since the start"), all.element,
    h("p", {}, h("a", { href: "#/capture/drops" }, "Capture what is dropped")));
  shared.on((look, looks) => {
    all.set(look.drops.filter((drop) => drop.packets > 0));
    const sums = new Map();
    const of_reason = (one, reason) => one.drops.filter((d) => d.reason === reason).reduce((sum, d) => sum + d.packets_per_s, 0);
    for (const one of looks) for (const drop of one.drops) sums.set(drop.reason, (sums.get(drop.reason) ?? 0) + drop.packets_per_s);
    const top = [...sums].filter(([, sum]) => sum > 0).sort((a, b) => b[1] - a[1]).slice(0, LINES).map(([reason]) => reason);
    const lines = top.map((reason) => ({ name: reason, points: looks.map((one) => [one.at, of_reason(one, reason)]) }));
    plot(canvas, lines.length ? lines : [{ name: "none", points: looks.map((one) => [one.at, 0]) }], (at) => new Date(at).toLocaleTimeString());
    legend.replaceChildren(...top.map((reason, at) => { const mark = h("i"); mark.style.background = colour(at); return h("span", { title: meaning.get(reason) ?? "" }, mark, reason); }));
  });
}
