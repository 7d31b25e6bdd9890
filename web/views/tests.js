// SPDX-License-Identifier: MIT OR Apache-2.0
// Tests of devices by the book, and their plots.

import { call, text } from "../api.js";
import { form, h, put, say, short, table } from "../dom.js";
import { chart } from "../plot.js";
import { follow, listed } from "./jobs.js";

/** What procedures do, in a word. */
const PROCEDURES = [
  ["rfc2544", "throughput, latency, loss"], ["mlr", "fast search for rates"], ["rfc2889", "bridges"], ["rfc5180", "IPv6"],
  ["rfc8219", "transition to IPv6"], ["rfc9004", "bursts"], ["trial", "one trial"],
];
/** A trial, as searches report it: size, rate in Mpps, seconds, and what came of it. */
const TRIAL = /^\s*(\S+) bytes, ([\d.]+) Mpps for ([\d.]+) s: (.*)$/gm;

const name = (job) => `test-${job.id}.json`;

export async function tests(main, shared) {
  const jobs = h("div");
  const begin = async ({ options, ...body }) => {
    body.procedure = body.procedure.split(" ")[0];
    if (options) body.options = options.split(/\s+/);
    const job = await call("POST", "/api/v1/tests", body).catch((why) => say(why.message));
    if (job) jobs.prepend(follow(job, shared, report, name, progress()));
  };
  put(main, form([
    ["procedure", "Procedure", { options: PROCEDURES.map(([key, words]) => `${key} (${words})`) }],
    ["device", "Device", { required: true, value: "passthrough", size: "24", placeholder: "ports:eth0,eth1", list: "devices" }],
    ["options", "Options", { size: "30", placeholder: "--size=64 --trial=1" }],
  ], "Start", begin),
  h("datalist", { id: "devices" }, ["cable", "veth", "passthrough", "kernel-router", "kernel-bridge", "self:", "ports:"].map((value) => h("option", { value }))),
  h("p.faint", {}, "Devices: self:CONF, kernel-router, kernel-bridge, passthrough, ports:IF1,IF2, cable, veth. Those with interfaces need the service to be root."), jobs);
  await listed("test", shared, jobs, report, name, progress);
}

/** Plots trials while they come. */
function progress() {
  const plot = chart("Rates of trials", "Mpps", (number) => `trial ${number}`);
  const lines = new Map();
  let [count, shown] = [0, false];
  return (words, box) => {
    for (const [, size, mpps, , outcome] of words.matchAll(TRIAL)) {
      count += 1;
      const is_bad = !/^lost 0\b/.test(outcome);
      if (!lines.has(size)) lines.set(size, { name: `${size} bytes`, marks: true, dashed: true, points: [] });
      lines.get(size).points.push([count, Number(mpps), is_bad]);
    }
    if (count && !shown) { shown = true; put(box, plot.element, h("p.faint", {}, "Each square is a trial; those in red lost packets.")); }
    if (count) plot.set([...lines.values()]);
  };
}

async function report(job, box) {
  if (job.state !== "done") return;
  const found = JSON.parse(await text(`/api/v1/jobs/${job.id}/result`));
  const results = found.results ?? [];
  const values = table([
    ["name", (r) => r.name, { mono: true }], ["value", (r) => r.value, { number: true, show: short }], ["unit", (r) => r.unit],
    ["least", (r) => r.min, { number: true, show: short }], ["most", (r) => r.max, { number: true, show: short }], ["runs", (r) => r.runs, { number: true }],
  ], { caption: "Results", most: 300 });
  // Values of one name at several frame sizes are a line: test.rfc2544.throughput_pps.64.
  const lines = new Map();
  for (const result of results) {
    const [, line, size] = /^(.*)\.(\d+)$/.exec(result.name) ?? [];
    if (line && typeof result.value === "number") lines.set(line, [...(lines.get(line) ?? []), [Number(size), result.value, result.unit]]);
  }
  const several = [...lines].filter(([, points]) => points.length > 1);
  const unit = several[0]?.[1][0][2];
  const shown = several.filter(([, points]) => points[0][2] === unit).slice(0, 8)
    .map(([line, points]) => ({ name: line, marks: true, points: points.map(([x, y]) => [x, y]).sort((a, b) => a[0] - b[0]) }));
  if (shown.length) {
    const plot = chart("Results by frame size", unit, (size) => `${size} bytes`);
    put(box, plot.element);
    plot.set(shown);
  }
  put(box, values.element);
  values.set(results);
}
