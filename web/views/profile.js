// SPDX-License-Identifier: MIT OR Apache-2.0
// Recordings of the profiler, and what they show: the report here, the timeline in a page of its own.

import { call, download, get, of, text } from "../api.js";
import { bar, form, h, percent, put, say, short, table } from "../dom.js";
import { follow, listed } from "./jobs.js";

const LOOK_MS = 300;
const name = (job) => `run-${job.id}.prof`;

export async function profile(main, shared) {
  const jobs = h("div");
  const begin = async (body) => {
    const job = await call("POST", of(shared.router, "recordings"), body).catch((why) => say(why.message));
    if (job) jobs.prepend(follow(job, shared, views, name));
  };
  put(main, form([
    ["time_s", "Seconds", { type: "number", min: "1", max: "600", value: "5" }],
    ["until", "End when this happens", { placeholder: "drop=queue-full, stall>1ms", size: "26" }],
    ["kernel", "the kernel's events, too", { type: "checkbox" }],
  ], "Record", begin), jobs);
  await listed("recording", shared, jobs, views, name);
}

/** A view of a recording: a job, waited for. */
async function view_of(job, view) {
  let made = await call("POST", `/api/v1/jobs/${job.id}/views`, { view });
  while (made.state === "running") {
    await new Promise((over) => setTimeout(over, LOOK_MS));
    made = await get(`/api/v1/jobs/${made.id}`);
  }
  if (made.state !== "done") throw new Error(made.message.trim() || made.state);
  return made;
}

/** Takes the result of a view by `take(path)`, and removes it. */
async function with_view(job, view, take) {
  const made = await view_of(job, view);
  try {
    return await take(`/api/v1/jobs/${made.id}/result`);
  } finally {
    call("DELETE", `/api/v1/jobs/${made.id}`).catch(() => {});
  }
}

async function views(job, box) {
  if (job.state !== "done" && !(job.state === "cancelled" && job.bytes)) return;
  const place = h("div");
  const button = (label, run) => {
    const made = h("button", { type: "button", onclick: async () => {
      made.disabled = true;
      await run().catch((why) => say(why.message));
      made.disabled = false;
    } }, label);
    return made;
  };
  const save = (view, ending) => () => with_view(job, view, (path) => download(path, `run-${job.id}.${ending}`));
  const show = async () => report(place, JSON.parse(await with_view(job, "report", text)).report);
  put(box, h("div.bar", {}, h("a.button", { href: `timeline.html?job=${job.id}` }, "Timeline"), button("Report", show),
    button("Save as page", save("timeline", "html")), button("Save for Perfetto", save("perfetto", "pftrace")), button("Save as CSV", save("csv", "csv"))), place);
}

/** The report: findings, then where time goes. */
function report(into, found) {
  const shares = (columns, rows, caption) => { const made = table(columns, { caption, most: 30 }); made.set(rows); return [h("h2", {}, caption), made.element]; };
  const share = { number: true, show: (value) => (value === null || value === undefined ? "–" : bar(value, percent(value))) };
  const number = { number: true, show: short };
  const threads = [
    ["thread", (t) => t.name], ["working", (t) => t.working, share], ["waits for locks", (t) => t.waiting_for_locks, share],
    ["sleeping", (t) => t.sleeping, share], ["on a processor", (t) => t.running, share], ["waits for one", (t) => t.ready, share],
  ];
  const elements = [
    ["element", (e) => e.name, { show: (element) => h("a", { href: `#/graph/${encodeURIComponent(element)}` }, element) }], ["class", (e) => e.class],
    ["share of the time", (e) => e.share, share], ["cycles/packet", (e) => e.cycles_per_packet, number],
    ["packets/batch", (e) => e.packets_per_batch, number], ["batches", (e) => e.batches, number],
  ];
  const stalls = [["what", (s) => s.what], ["thread", (s) => s.thread], ["at, ms", (s) => s.at_ms, number], ["took, µs", (s) => s.took_us, number]];
  into.replaceChildren();
  put(into,
    h("p.faint", {}, `${short(found.duration_ms)} ms, ${short(found.events)} events of the router, ${short(found.kernel_events)} of the kernel, ${short(found.lost)} lost; one in ${found.one_in} runs of tasks`),
    h("h2", {}, "Findings"),
    found.findings.length ? h("ul", {}, found.findings.map(finding)) : h("p.good", {}, "Nothing costs this router worth a word."),
    shares(elements, found.elements, "Elements"), shares(threads, found.threads, "Threads"), shares(stalls, found.stalls, "Longest"));
}

/** A finding: what it is, and what to do about it. */
const finding = ({ text: words, mend }) => h("li", {}, words, mend ? h("span.faint", {}, ` — ${mend}`) : null);
