// SPDX-License-Identifier: MIT OR Apache-2.0
// Long work: its progress, its end, its result.

import { call, download, get } from "../api.js";
import { h, say, text } from "../dom.js";

const LOOK_MS = 1000;
/** Characters of messages that are shown. */
const SHOWN = 600;

/** The last lines of what a job says. Where its file is on the router's machine is of no use here. */
function tail(words) {
  const told = words.trim().replace(/ in \/\S+; look into it by .*$/, "");
  return told.length > SHOWN ? `…${told.slice(-SHOWN)}` : told;
}

/**
 * Shows a job until it has ended or the page is left; calls `done(job, box)` then, and `heard(lines, box)` for each piece of its messages, if it is given.
 */
export function follow(job, shared, done, name, heard) {
  const meter = h("progress", { max: "1", "aria-label": "Progress" });
  const words = h("span");
  const stop = h("button", { type: "button", onclick: () => call("DELETE", `/api/v1/jobs/${job.id}`).catch((why) => say(why.message)) }, "Stop");
  const fetchIt = h("button", { type: "button", hidden: true, onclick: () => download(`/api/v1/jobs/${job.id}/result`, name(job)).catch((why) => say(why.message)) }, "Download");
  const box = h("div.job", { role: "status" }, h("b", {}, `${job.kind} ${job.id}`), " ", words, h("div", {}, meter), stop, " ", fetchIt);
  const show = (now) => {
    const ended = now.state !== "running";
    // Who hears each line shows what it means.
    const message = heard && now.state !== "failed" ? "" : tail(now.message);
    text(words, `${now.state}, ${now.seconds.toFixed(0)} s${now.bytes ? `, ${now.bytes} bytes` : ""}${message ? `: ${message}` : ""}`);
    if (now.progress !== null) meter.value = now.progress;
    meter.hidden = ended;
    stop.textContent = ended ? "Remove" : "Stop";
    fetchIt.hidden = !(now.state === "done" && now.bytes > 0);
    return ended;
  };
  let from = 0;
  const listen = async () => {
    for (;;) {
      const { text: lines, next } = await get(`/api/v1/jobs/${job.id}/messages`, { from });
      if (next === from) return;
      from = next;
      heard(lines, box);
    }
  };
  (async () => {
    let now = job;
    while (!show(now) && !shared.left.signal.aborted) {
      if (heard) await listen();
      await new Promise((over) => setTimeout(over, LOOK_MS));
      now = await get(`/api/v1/jobs/${job.id}`);
    }
    if (heard && !shared.left.signal.aborted) await listen();
    if (!shared.left.signal.aborted) await done?.(now, box);
  })().catch((why) => { words.textContent = why.status === 404 ? "removed" : why.message; });
  return box;
}

/** Jobs of a kind that there are, each followed. */
export async function listed(kind, shared, into, done, name, heard) {
  const { jobs } = await get("/api/v1/jobs");
  for (const job of jobs.filter((found) => found.kind === kind && (!found.router || found.router === shared.router)).reverse()) into.append(follow(job, shared, done, name, heard?.()));
}
