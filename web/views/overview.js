// SPDX-License-Identifier: MIT OR Apache-2.0
// The router at a glance: rates, cores, memory, and the busiest elements.

import { h, percent, put, short, table } from "../dom.js";

export function overview(main, shared) {
  const cards = h("div.cards");
  const cores = table([
    ["worker", (c) => c.worker, { number: true }],
    ["cpu", (c) => c.cpu, { number: true }],
    ["busy", (c) => c.busy_share, { number: true, show: percent }],
    ["packets/s", (c) => c.packets_per_s, { number: true, show: short }],
    ["waited", (c) => c.waited_share, { number: true, show: percent }],
    ["state", (c) => (c.stalled ? "stalled" : c.active ? "" : "off"), { show: (s) => h(s === "stalled" ? "span.bad" : "span", {}, s) }],
  ], { caption: "Workers" });
  const busiest = table([
    ["element", (e) => e.name, { show: (name) => h("a", { href: `#/graph/${encodeURIComponent(name)}` }, name) }],
    ["class", (e) => e.class],
    ["busy", (e) => e.busy_share, { number: true, show: percent }],
    ["packets/s", (e) => e.packets_per_s, { number: true, show: short }],
    ["cycles/packet", (e) => e.cycles_per_packet, { number: true, show: short }],
    ["drops/s", (e) => e.dropped_per_s, { number: true, show: (n) => h(n > 0 ? "span.bad" : "span", {}, short(n)) }],
  ], { by: 2, most: 15, caption: "Busiest elements" });
  put(main, cards, h("h2", {}, "Cores"), cores.element, h("h2", {}, "Busiest elements"), busiest.element);
  const card = (title, value, kind = "b") => h("div.card", {}, title, h(kind, {}, value));
  shared.on((look) => {
    // Packets that were to end where they ended are no loss.
    const dropped = look.drops.filter((drop) => drop.reason !== "discarded").reduce((sum, drop) => sum + drop.packets_per_s, 0);
    const ports = look.ports.reduce((sum, port) => sum + port.packets_per_s, 0);
    cards.replaceChildren(
      card("Packets at ports, per s", short(ports)),
      card("Dropped, per s", short(dropped), dropped > 0 ? "b.bad" : "b"),
      card("Free packet memory", look.router.frames ? percent(look.router.frames_free / look.router.frames) : "–"),
      card("Up", time(look.router.up_s)),
      card("Configurations so far", short(look.router.configurations)),
    );
    cores.set(look.cores);
    busiest.set(look.elements);
  });
}

const time = (s) => s < 120 ? `${Math.round(s)} s` : s < 7200 ? `${Math.round(s / 60)} min` : s < 172800 ? `${(s / 3600).toFixed(1)} h` : `${(s / 86400).toFixed(1)} d`;
