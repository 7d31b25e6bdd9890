// SPDX-License-Identifier: MIT OR Apache-2.0
// Recordings of the profiler, and what they show.

import { call, of } from "../api.js";
import { form, h, put, say } from "../dom.js";
import { follow, listed } from "./jobs.js";

const name = (job) => `run-${job.id}.prof`;

export async function profile(main, shared) {
  const jobs = h("div");
  const begin = async (body) => {
    const job = await call("POST", of(shared.router, "recordings"), body).catch((why) => say(why.message));
    if (job) jobs.prepend(follow(job, shared, null, name));
  };
  put(main, form([
    ["time_s", "Seconds", { type: "number", min: "1", max: "600", value: "5" }],
    ["until", "End when this happens", { placeholder: "drop=queue-full, stall>1ms", size: "26" }],
    ["kernel", "the kernel's events, too", { type: "checkbox" }],
  ], "Record", begin),
  h("p.faint", {}, "'junctor profile report FILE' says where time goes; 'junctor profile export FILE --format html' makes a timeline for a browser."), jobs);
  await listed("recording", shared, jobs, null, name);
}
