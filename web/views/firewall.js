// SPDX-License-Identifier: MIT OR Apache-2.0
// Rules with their counters, and named sets.

import { get, of } from "../api.js";
import { h, put, short, table } from "../dom.js";

export async function firewall(main, shared) {
  const rules = table([
    ["line", (r) => r.line, { number: true, show: (n) => n ?? "default" }],
    ["packets", (r) => r.packets, { number: true, show: short }],
    ["bytes", (r) => r.bytes, { number: true, show: short }],
    ["connections", (r) => r.connections, { number: true, show: short }],
    ["last match, s ago", (r) => r.last_s, { number: true, show: short }],
    ["rule", (r) => r.text, { mono: true }],
  ], { caption: "Rules", most: 2000, none: "no rules" });
  const sets = table([
    ["set", (s) => s.name], ["kind", (s) => s.kind],
    ["entries", (s) => s.entries, { number: true, show: short }],
    ["that end", (s) => s.ending, { number: true, show: short }],
    ["bytes", (s) => s.bytes, { number: true, show: short }],
  ], { caption: "Sets" });
  const about = h("p.faint");
  put(main, about, rules.element, h("h2", {}, "Sets"), sets.element);
  let busy = false;
  const show = async () => {
    if (busy) return;
    busy = true;
    try {
      const [found, named] = await Promise.all([get(of(shared.router, "firewall", "rules")), get(of(shared.router, "firewall", "sets"))]);
      about.textContent = `of ${found.element}`;
      rules.set(found.rules);
      sets.set(named.sets);
    } finally { busy = false; }
  };
  try {
    await show();
  } catch (why) {
    if (why.status === 401) throw why;
    main.replaceChildren(main.firstChild, h("p.faint", {}, why.status === 404 ? "This router has no firewall." : why.message));
    return;
  }
  let looks = 0;
  shared.on(() => { looks += 1; if (looks % 5 === 0) show().catch(() => {}); });
}
