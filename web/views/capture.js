// SPDX-License-Identifier: MIT OR Apache-2.0
// Captures of packets, as pcapng to download.

import { call, of } from "../api.js";
import { form, h, put, say } from "../dom.js";
import { follow, listed } from "./jobs.js";

const name = (job) => `capture-${job.id}.pcapng`;

export async function capture(main, shared, [at]) {
  const jobs = h("div");
  const begin = async (values) => {
    const { point, is_drops, ...body } = values;
    if (point) body.points = point.split(/[\s,]+/).filter(Boolean);
    if (is_drops) body.drops = "";
    const job = await call("POST", of(shared.router, "captures"), body).catch((why) => say(why.message));
    if (job) jobs.prepend(follow(job, shared, null, name));
  };
  put(main, form([
    ["point", "Where: ELEMENT or ELEMENT:PORT, several with commas", { value: at && at !== "drops" ? at : "", size: "32" }],
    ["filter", "Filter, as for tcpdump", { placeholder: "host 10.0.0.1", size: "26" }],
    ["direction", "Direction", { options: ["", "in", "out", "both"] }],
    ["count", "End after packets", { type: "number", min: "1" }],
    ["time_s", "End after seconds", { type: "number", min: "1", max: "3600", value: "10" }],
    ["snap", "Bytes of each", { type: "number", min: "1", max: "262144" }],
    ["is_drops", "what is dropped", { type: "checkbox", checked: at === "drops" }],
  ], "Capture", begin), jobs);
  await listed("capture", shared, jobs, null, name);
}
