// SPDX-License-Identifier: MIT OR Apache-2.0
// Dropped packets by reason: over time, and since the router started.

import { get } from "../api.js";
import { h, put, short, table } from "../dom.js";
import { chart } from "../plot.js";

const LINES = 8;
/** Packets that were to end where they ended are no loss. */
const NO_LOSS = "discarded";

/** Packets that elements lose each second, by name. */
export function losses(look) {
  const lost = new Map();
  for (const { element, reason, packets_per_s: rate } of look.drops) {
    if (reason !== NO_LOSS && rate > 0) lost.set(element, (lost.get(element) ?? 0) + rate);
  }
  return lost;
}

export async function drops(main, shared) {
  const plot = chart("Drops per second by reason", "packets/s", (at) => new Date(at).toLocaleTimeString());
  const { reasons } = await get("/api/v1/drop-reasons");
  const meaning = new Map(reasons.map((reason) => [reason.name, reason.text]));
  const all = table([
    ["reason", (d) => d.reason],
    ["element", (d) => d.element, { show: (name) => h("a", { href: `#/graph/${encodeURIComponent(name)}` }, name) }],
    ["packets/s", (d) => d.packets_per_s, { number: true, show: short }],
    ["packets", (d) => d.packets, { number: true, show: short }],
    ["means", (d) => meaning.get(d.reason) ?? ""],
  ], { by: 3, none: "nothing was dropped", caption: "Drops", key: (d) => `${d.reason} ${d.element}` });
  const is_whole = h("input", { type: "checkbox" });
  put(main,
    h("div.bar", {}, h("label", {}, is_whole, "with packets that were to end ('discarded')")),
    plot.element, h("h2", {}, "Since the start"), all.element,
    h("p", {}, h("a", { href: "#/capture/drops" }, "Capture what is dropped")));
  let [last, past] = [null, []];
  const wanted = (reason) => is_whole.checked || reason !== NO_LOSS;
  const show = () => {
    if (!last) return;
    all.set(last.drops.filter((drop) => drop.packets > 0 && wanted(drop.reason)));
    const sums = new Map();
    for (const one of past) for (const [reason, rate] of one.drops) if (wanted(reason)) sums.set(reason, (sums.get(reason) ?? 0) + rate);
    const top = [...sums].sort((a, b) => b[1] - a[1]).slice(0, LINES).map(([reason]) => reason).sort();
    const line = (reason) => ({ name: reason, text: meaning.get(reason), points: past.map((one) => [one.at, one.drops.get(reason) ?? 0]) });
    plot.set(top.length ? top.map(line) : [{ name: "no drops", points: past.map((one) => [one.at, 0]) }]);
  };
  is_whole.addEventListener("change", show);
  shared.on((look, kept) => { [last, past] = [look, kept]; show(); });
}
