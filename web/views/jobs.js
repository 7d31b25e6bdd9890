// SPDX-License-Identifier: MIT OR Apache-2.0
// Long work: its progress, its end, its result.

import { call, download, get } from "../api.js";
import { h, say } from "../dom.js";

const LOOK_MS = 1000;

/** Shows a job until it has ended or the page is left; calls `done(job)` then. */
export function follow(job, shared, done, name) {
  const meter = h("progress", { max: "1", "aria-label": "Progress" });
  const words = h("span");
  const stop = h("button", { type: "button", onclick: () => call("DELETE", `/api/v1/jobs/${job.id}`).catch((why) => say(why.message)) }, "Stop");
  const fetchIt = h("button", { type: "button", hidden: true, onclick: () => download(`/api/v1/jobs/${job.id}/result`, name(job)).catch((why) => say(why.message)) }, "Download");
  const box = h("div.job", { role: "status" }, h("b", {}, `${job.kind} ${job.id}`), " ", words, h("div", {}, meter), stop, " ", fetchIt);
  const show = (now) => {
    const ended = now.state !== "running";
    words.textContent = `${now.state}, ${now.seconds.toFixed(0)} s${now.bytes ? `, ${now.bytes} bytes` : ""}${now.message ? `: ${now.message.trim()}` : ""}`;
    if (now.progress !== null) meter.value = now.progress;
    meter.hidden = ended;
    stop.textContent = ended ? "Remove" : "Stop";
    fetchIt.hidden = !(now.state === "done" && now.bytes > 0);
    return ended;
  };
  (async () => {
    let now = job;
    while (!show(now) && !shared.left.signal.aborted) {
      await new Promise((over) => setTimeout(over, LOOK_MS));
      now = await get(`/api/v1/jobs/${job.id}`);
    }
    if (!shared.left.signal.aborted) await done?.(now, box);
  })().catch((why) => { words.textContent = why.status === 404 ? "removed" : why.message; });
  return box;
}

/** Jobs of a kind that there are, each followed. */
export async function listed(kind, shared, into, done, name) {
  const { jobs } = await get("/api/v1/jobs");
  for (const job of jobs.filter((found) => found.kind === kind && (!found.router || found.router === shared.router)).reverse()) into.append(follow(job, shared, done, name));
}
