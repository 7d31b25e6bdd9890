// SPDX-License-Identifier: MIT OR Apache-2.0
// The router at a glance: rates, cores, memory, and the busiest elements.

import { bar, h, percent, put, short, table, text } from "../dom.js";
import { chart } from "../plot.js";
import { losses } from "./drops.js";

/** Cores that a plot can tell apart. */
const LINES = 8;

export function overview(main, shared) {
  const cards = h("div.cards");
  const cores = table([
    ["worker", (c) => c.worker, { number: true }],
    ["cpu", (c) => c.cpu, { number: true }],
    ["busy", (c) => c.busy_share, { number: true, show: (share) => bar(share, percent(share)) }],
    ["packets/s", (c) => c.packets_per_s, { number: true, show: short }],
    ["waited", (c) => c.waited_share, { number: true, show: percent }],
    ["state", (c) => (c.stalled ? "stalled" : c.active ? "" : "off"), { show: (s) => h(s === "stalled" ? "span.bad" : "span", {}, s) }],
  ], { caption: "Workers", key: (c) => c.worker });
  const busiest = table([
    ["element", (e) => e.name, { show: (name) => h("a", { href: `#/graph/${encodeURIComponent(name)}` }, name) }],
    ["class", (e) => e.class],
    ["busy", (e) => e.busy_share, { number: true, show: percent }],
    ["packets/s", (e) => e.packets_per_s, { number: true, show: short }],
    ["cycles/packet", (e) => e.cycles_per_packet, { number: true, show: short }],
    ["drops/s", (e) => e.lost_per_s, { number: true, show: (n) => h(n > 0 ? "span.bad" : "span", {}, short(n)) }],
  ], { by: 2, most: 15, caption: "Busiest elements", key: (e) => e.name });
  const plot = chart("Load of cores", "busy, %", (at) => new Date(at).toLocaleTimeString(), 1);
  put(main, cards, h("h2", {}, "Cores"), h("div.beside", {}, cores.element, plot.element), h("h2", {}, "Busiest elements"), busiest.element);
  const card = (title) => { const value = h("b"); cards.append(h("div.card", {}, title, value)); return (words, is_bad) => { text(value, words); value.classList.toggle("bad", Boolean(is_bad)); }; };
  const [rate, lost, memory, up, configurations] = ["Packets at ports, per s", "Dropped, per s", "Free packet memory", "Up", "Configurations so far"].map(card);
  shared.on((look, past) => {
    const lost_by = losses(look);
    const dropped = [...lost_by.values()].reduce((sum, lost) => sum + lost, 0);
    rate(short(look.ports.reduce((sum, port) => sum + port.packets_per_s, 0)));
    lost(short(dropped), dropped > 0);
    memory(look.router.frames ? percent(look.router.frames_free / look.router.frames) : "–");
    up(time(look.router.up_s));
    configurations(short(look.router.configurations));
    cores.set(look.cores);
    busiest.set(look.elements.map((element) => ({ ...element, lost_per_s: lost_by.get(element.name) ?? 0 })));
    const share = (one, worker) => 100 * (one.cores.find(([number]) => number === worker)?.[1] ?? 0);
    plot.set(look.cores.slice(0, LINES).map(({ worker }) => ({ name: `worker ${worker}`, points: past.map((one) => [one.at, share(one, worker)]) })));
  });
}

const time = (s) => s < 120 ? `${Math.round(s)} s` : s < 7200 ? `${Math.round(s / 60)} min` : s < 172800 ? `${(s / 3600).toFixed(1)} h` : `${(s / 86400).toFixed(1)} d`;
