// SPDX-License-Identifier: MIT OR Apache-2.0
// Sessions of a firewall, a translator or a load balancer.

import { call, get, of } from "../api.js";
import { form, h, put, short, table } from "../dom.js";

export async function sessions(main, shared) {
  const about = h("p.faint", { "aria-live": "polite" });
  const end = (address, port) => (port ? `${address.includes(":") ? `[${address}]` : address}:${port}` : address);
  const all = table([
    ["protocol", (s) => s.protocol], ["VRF", (s) => s.vrf ?? ""],
    ["from", (s) => end(s.source, s.source_port), { mono: true }],
    ["to", (s) => end(s.destination, s.destination_port), { mono: true }],
    ["outside, server", (s) => (s.outside ? end(s.outside, s.outside_port) : s.server ? end(s.server, s.server_port) : ""), { mono: true }],
    ["state", (s) => s.state],
    ["packets there", (s) => s.packets_there, { number: true, show: short }],
    ["back", (s) => s.packets_back, { number: true, show: short }],
    ["bytes", (s) => s.bytes_there + s.bytes_back, { number: true, show: short }],
    ["age, s", (s) => s.age_s, { number: true, show: short }],
    ["ends in, s", (s) => s.expires_s, { number: true, show: short }],
    ["end", (s) => s.source, { fresh: true, show: (_, s) => h("button", { type: "button", "aria-label": `End all sessions of ${s.source}`, onclick: () => stop(s.source) }, "End") }],
  ], { none: "no session fits", caption: "Sessions" });
  const more = h("button", { type: "button", hidden: true }, "Next page");
  let asked = {};
  async function show(query) {
    asked = query;
    const found = await get(of(shared.router, "sessions"), query);
    all.element.hidden = false;
    all.set(found.sessions);
    about.textContent = `${found.sessions.length} sessions of ${found.element}${found.next ? ", and more" : ""}`;
    more.hidden = !found.next;
    more.onclick = () => show({ ...asked, cursor: found.next });
  }
  async function stop(address) {
    if (!confirm(`End all sessions that have ${address} on one side?`)) return;
    const done = await call("POST", of(shared.router, "sessions", "end"), { address });
    about.textContent = `${done.ended} sessions ended`;
    await show(asked);
  }
  put(main, form([
    ["address", "Address on one side", { placeholder: "10.0.1.0/24" }],
    ["port", "Port", { type: "number", min: "0", max: "65535" }],
    ["protocol", "Protocol", { options: ["", "tcp", "udp", "icmp", "icmp6"] }],
    ["state", "State"], ["element", "Element"],
  ], "Search", (values) => show({ limit: 200, ...values })), about, all.element, more);
  try {
    await show({ limit: 200 });
  } catch (why) {
    if (why.status === 401) throw why;
    about.textContent = why.status === 404 ? "This router keeps no sessions: it has no firewall, translator or load balancer." : why.message;
    all.element.hidden = true;
  }
}
