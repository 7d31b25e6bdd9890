// SPDX-License-Identifier: MIT OR Apache-2.0
// What differs between two texts, by lines.

import { h } from "./dom.js";

/** Lines that a comparison takes; more would take too long. */
const COMPARED = 3000;

/** What differs, as elements: changed lines with three around them. Null if nothing does. */
export function difference(before, after) {
  const lines = diff(before.split("\n"), after.split("\n"));
  if (!lines.some(([sign]) => sign !== " ")) return null;
  return near(lines).map(([sign, text]) => h(sign === "+" ? "ins.added" : sign === "-" ? "del.removed" : "span", {}, `${sign} ${text}\n`));
}

/** Lines of two texts with '+', '-' or ' ', by their longest common subsequence. */
function diff(before, after) {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < before.length - start && end < after.length - start && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  const [a, b] = [before.slice(start, before.length - end), after.slice(start, after.length - end)];
  const same = (lines) => lines.map((line) => [" ", line]);
  const head = same(before.slice(0, start));
  const tail = same(before.slice(before.length - end));
  if (a.length > COMPARED || b.length > COMPARED) return [...head, ...a.map((l) => ["-", l]), ...b.map((l) => ["+", l]), ...tail];
  const width = b.length + 1;
  const most = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) most[i * width + j] = a[i] === b[j] ? most[(i + 1) * width + j + 1] + 1 : Math.max(most[(i + 1) * width + j], most[i * width + j + 1]);
  }
  const middle = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { middle.push([" ", a[i]]); i += 1; j += 1; }
    else if (j >= b.length || (i < a.length && most[(i + 1) * width + j] >= most[i * width + j + 1])) middle.push(["-", a[i++]]);
    else middle.push(["+", b[j++]]);
  }
  return [...head, ...middle, ...tail];
}

/** Changed lines with three around them. */
function near(lines) {
  const keep = new Set();
  lines.forEach(([sign], at) => { if (sign !== " ") for (let i = at - 3; i <= at + 3; i += 1) keep.add(i); });
  return lines.flatMap((line, at) => (keep.has(at) ? [line] : keep.has(at - 1) ? [[" ", "…"]] : []));
}
