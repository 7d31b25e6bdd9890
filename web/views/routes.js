// SPDX-License-Identifier: MIT OR Apache-2.0
// Routes of the control plane, by address or prefix.

import { get } from "../api.js";
import { form, h, put, table } from "../dom.js";

export async function routes(main) {
  const about = h("p.faint", { "aria-live": "polite" });
  const hop = ({ gateway, link, weight, labels, backup }) => [gateway, link, weight > 1 && `weight ${weight}`, labels?.length && `labels ${labels}`, backup && "backup"].filter(Boolean).join(" ");
  const all = table([
    ["prefix", (r) => r.prefix, { mono: true }],
    ["next hops", (r) => (r.hops ?? []).map(hop).join(", ") || r.kind, { mono: true }],
    ["VRF", (r) => r.vrf ?? ""], ["feed", (r) => r.feed], ["protocol", (r) => r.protocol],
    ["metric", (r) => r.metric, { number: true }], ["state", (r) => (r.stale ? "stale" : r.best === false ? "not best" : "")],
  ], { most: 1000, none: "no route fits", caption: "Routes" });
  const more = h("button", { type: "button", hidden: true }, "Next page");
  let asked = {};
  async function show(query) {
    asked = query;
    const found = await get("/api/v1/routes", query);
    all.element.hidden = false;
    all.set(found.routes);
    about.textContent = `${found.count} ${found.count === 1 ? "route" : "routes"}${found.next ? ", and more" : ""}`;
    more.hidden = !found.next;
    more.onclick = () => show({ ...asked, cursor: found.next });
  }
  put(main, form([
    ["address", "Which route decides about an address", { placeholder: "192.0.2.1" }],
    ["prefix", "Routes within a prefix", { placeholder: "10.0.0.0/8" }],
    ["vrf", "VRF"], ["feed", "Feed"],
    ["all", "those that do not count, too", { type: "checkbox" }],
  ], "Search", (values) => show({ limit: 1000, ...values })), about, all.element, more);
  try {
    await show({ limit: 1000 });
  } catch (why) {
    if (why.status === 401) throw why;
    about.textContent = why.message;
    all.element.hidden = true;
  }
}
