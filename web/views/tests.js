// SPDX-License-Identifier: MIT OR Apache-2.0
// Tests of devices by the book, and their plots.

import { call, text } from "../api.js";
import { form, h, put, say, short, table } from "../dom.js";
import { plot } from "../plot.js";
import { follow, listed } from "./jobs.js";

const name = (job) => `test-${job.id}.json`;

export async function tests(main, shared) {
  const jobs = h("div");
  const begin = async ({ options, ...body }) => {
    if (options) body.options = options.split(/\s+/);
    const job = await call("POST", "/api/v1/tests", body).catch((why) => say(why.message));
    if (job) jobs.prepend(follow(job, shared, report, name));
  };
  put(main, form([
    ["procedure", "Procedure", { options: ["rfc2544", "mlr", "rfc2889", "rfc5180", "rfc8219", "rfc9004", "trial"] }],
    ["device", "Device", { required: true, value: "passthrough", size: "24", placeholder: "ports:eth0,eth1" }],
    ["options", "Options", { size: "30", placeholder: "--size=64 --duration=5s" }],
  ], "Start", begin),
  h("p.faint", {}, "Devices: self:CONF, kernel-router, kernel-bridge, passthrough, ports:IF1,IF2, cable, veth."), jobs);
  await listed("test", shared, jobs, report, name);
}

async function report(job, box) {
  if (job.state !== "done") return;
  const found = JSON.parse(await text(`/api/v1/jobs/${job.id}/result`));
  const results = found.results ?? [];
  const canvas = h("canvas.plot", { role: "img", "aria-label": "Results by frame size" });
  const values = table([
    ["name", (r) => r.name, { mono: true }], ["value", (r) => r.value, { number: true, show: short }], ["unit", (r) => r.unit],
    ["least", (r) => r.min, { number: true, show: short }], ["most", (r) => r.max, { number: true, show: short }], ["runs", (r) => r.runs, { number: true }],
  ], { caption: "Results", most: 300 });
  put(box, canvas, values.element);
  values.set(results);
  // Values of one name at several frame sizes are a line: test.rfc2544.throughput_pps.64.
  const lines = new Map();
  for (const result of results) {
    const [, line, size] = /^(.*)\.(\d+)$/.exec(result.name) ?? [];
    if (line && typeof result.value === "number") lines.set(line, [...(lines.get(line) ?? []), [Number(size), result.value, result.unit]]);
  }
  const unit = [...lines.values()][0]?.[0][2];
  const shown = [...lines].filter(([, points]) => points[0][2] === unit).slice(0, 8)
    .map(([line, points]) => ({ name: line, marks: true, points: points.map(([x, y]) => [x, y]).sort((a, b) => a[0] - b[0]) }));
  canvas.hidden = !shown.length;
  plot(canvas, shown, (size) => `${size} bytes`);
}
