// SPDX-License-Identifier: MIT OR Apache-2.0
// Packets followed through the elements: those that pass, or one that is only tried.

import { call, of, text } from "../api.js";
import { form, h, put, say } from "../dom.js";
import { follow } from "./jobs.js";

export function trace(main, shared, [at]) {
  const found = h("div");
  const begin = async (body) => {
    const job = await call("POST", of(shared.router, "traces"), body).catch((why) => say(why.message));
    if (job) found.prepend(follow(job, shared, stories, (j) => `trace-${j.id}.jsonl`));
  };
  async function stories(job, box) {
    if (job.state !== "done") return;
    const lines = (await text(`/api/v1/jobs/${job.id}/result`)).split("\n").filter(Boolean).map((line) => JSON.parse(line));
    put(box, lines.length ? lines.map(story) : h("p.faint", {}, "No packet came by."));
  }
  put(main,
    h("h2", {}, "Try a packet"),
    h("p.faint", {}, "Nothing is sent: the router says what it would do with it."),
    composer(begin, at),
    h("h2", {}, "Follow packets that pass"),
    form([
      ["filter", "Filter, as for tcpdump", { placeholder: "udp port 53", size: "30" }],
      ["at", "From this element on", { value: at ?? "" }],
      ["count", "How many", { type: "number", min: "1", max: "1000", value: "5" }],
      ["time_s", "For so many seconds", { type: "number", min: "1", max: "600", value: "10" }],
    ], "Follow", begin),
    found);
}

/** A form of a packet's parts; the text that they make can be changed, and has what the parts lack. */
function composer(begin, at) {
  const made = form([
    ["from", "From address", { placeholder: "10.0.0.9", size: "16" }], ["to", "To address", { placeholder: "10.0.1.9", size: "16" }],
    ["kind", "Protocol", { options: ["tcp", "udp", "icmp echo", "none"] }],
    ["sport", "From port", { type: "number", min: "0", max: "65535", placeholder: "4000" }], ["dport", "To port", { type: "number", min: "0", max: "65535", placeholder: "443" }],
    ["flags", "TCP flags", { size: "4", value: "S" }], ["ttl", "TTL", { type: "number", min: "0", max: "255", placeholder: "64" }],
    ["packet", "Headers: what is tried", { class: "wide", required: true, size: "60", placeholder: "ip 10.0.0.9 to 10.0.1.9 / tcp 4000 to 443 flags S" }],
    ["at", "Put in at element (or ELEMENT:PORT)", { value: at ?? "" }],
  ], "Try it", ({ packet, at: where }) => begin({ packet, ...(where ? { at: where } : {}) }));
  const field = (name) => made.elements[name];
  const has_ports = () => ["tcp", "udp"].includes(field("kind").value);
  made.addEventListener("input", (event) => {
    for (const name of ["sport", "dport"]) field(name).disabled = !has_ports();
    field("flags").disabled = field("kind").value !== "tcp";
    if (["packet", "at"].includes(event.target.name)) return;
    field("packet").value = headers((name) => field(name).value.trim());
  });
  return made;
}

/** The headers that a form means; nothing without addresses. */
function headers(value) {
  if (!value("from") || !value("to")) return "";
  const is_v6 = value("from").includes(":");
  const [network, ttl, icmp] = is_v6 ? ["ip6", "hlim", "icmp6"] : ["ip", "ttl", "icmp"];
  const parts = [`${network} ${value("from")} to ${value("to")}${value("ttl") ? ` ${ttl} ${value("ttl")}` : ""}`];
  const kind = value("kind");
  if (kind === "tcp" || kind === "udp") {
    const flags = kind === "tcp" && value("flags") ? ` flags ${value("flags")}` : "";
    parts.push(`${kind} ${value("sport") || 4000} to ${value("dport") || (kind === "tcp" ? 443 : 53)}${flags}`);
  } else if (kind === "icmp echo") parts.push(`${icmp} echo`);
  return parts.join(" / ");
}

/** A packet's way: a line for each element, with what it changed and where the packet went. */
function story(line) {
  const items = [];
  for (const step of line.steps ?? []) {
    if (step.event === "input") {
      items.push(h("li", {}, h("a", { href: `#/graph/${encodeURIComponent(step.element)}` }, step.element), ` :: ${step.class}`, `, input ${step.port}`, h("ul")));
    }
    const inside = items.at(-1)?.lastChild;
    if (!inside) continue;
    put(inside, (step.changes ?? []).map((change) => h("li.mono", {}, words(change))));
    if (step.event === "dropped") put(inside, h("li.bad", {}, `dropped: ${step.reason}`));
    else if (step.event === "output") put(inside, h("li.faint", {}, `output ${step.port} → ${step.to}, input ${step.to_port}`));
    else if (step.event !== "input") put(inside, h("li.faint", {}, step.note ? `${step.event}: ${step.note}` : step.event));
  }
  const field = (name) => line.fields?.find((found) => found.field === name)?.value;
  const from = field("ip.src") ?? field("ipv6.src");
  const head = `packet ${line.packet}${line.tried ? ", tried" : ""}${from ? `: ${from} → ${field("ip.dst") ?? field("ipv6.dst")}` : ""}`;
  return h("details", { open: true }, h("summary", {}, head), items.length ? h("ol", {}, items) : h("p.faint", {}, "It met no element."));
}

const words = (change) => `${change.field} ${change.before} → ${change.after}`;
