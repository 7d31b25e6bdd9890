// SPDX-License-Identifier: MIT OR Apache-2.0
// Ports, queues and tables.

import { h, percent, put, short, table } from "../dom.js";
import { chart } from "../plot.js";

const LINES = 8;

export function ports(main, shared) {
  const all = table([
    ["port", (p) => p.name], ["class", (p) => p.class],
    ["packets/s", (p) => p.packets_per_s, { number: true, show: short }],
    ["bytes/s", (p) => p.bytes_per_s, { number: true, show: short }],
    ["missed/s", (p) => p.missed_per_s, { number: true, show: (n) => h(n > 0 ? "span.bad" : "span", {}, short(n)) }],
    ["missed", (p) => p.missed, { number: true, show: short }],
    ["packets", (p) => p.packets, { number: true, show: short }],
  ], { none: "no element speaks to a device", caption: "Ports", key: (p) => p.name });
  const queues = table([
    ["queue", (q) => q.name], ["class", (q) => q.class],
    ["full", (q) => (q.capacity ? q.length / q.capacity : 0), { number: true, show: (s) => h(s > 0.75 ? "span.bad" : "span", {}, percent(s)) }],
    ["length", (q) => q.length, { number: true }], ["capacity", (q) => q.capacity, { number: true, show: short }],
    ["most so far", (q) => q.highwater, { number: true }],
    ["in/s", (q) => q.received_per_s, { number: true, show: short }],
    ["out/s", (q) => q.packets_per_s, { number: true, show: short }],
    ["drops/s", (q) => q.dropped_per_s, { number: true, show: (n) => h(n > 0 ? "span.bad" : "span", {}, short(n)) }],
  ], { caption: "Queues", key: (q) => q.name });
  const tables = table([
    ["table", (t) => t.name], ["class", (t) => t.class],
    ["entries", (t) => t.entries, { number: true, show: short }],
    ["room for", (t) => t.capacity, { number: true, show: short }],
    ["bytes", (t) => t.memory_bytes, { number: true, show: short }],
  ], { caption: "Tables", key: (t) => t.name });
  const plot = chart("Packets per second by port", "packets/s", (at) => new Date(at).toLocaleTimeString());
  put(main, plot.element, all.element, h("h2", {}, "Queues"), queues.element, h("h2", {}, "Tables"), tables.element);
  shared.on((look, past) => {
    all.set(look.ports);
    queues.set(look.queues);
    tables.set(look.tables);
    const top = look.ports.slice().sort((a, b) => b.packets - a.packets).slice(0, LINES).map((port) => port.name).sort();
    const rate = (one, name) => one.ports.find(([port]) => port === name)?.[1] ?? 0;
    plot.element.hidden = !top.length;
    plot.set(top.map((name) => ({ name, points: past.map((one) => [one.at, rate(one, name)]) })));
  });
}
