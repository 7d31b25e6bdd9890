// SPDX-License-Identifier: MIT OR Apache-2.0
// The configuration: edited, checked as it is typed, compared, applied.

import { call, get, of } from "../api.js";
import { h, put, say } from "../dom.js";
import { follow } from "./jobs.js";

/** How long after the last key the text is checked. */
const CALM_MS = 400;
/** Lines that a comparison takes; more would take too long. */
const COMPARED = 3000;

export async function configuration(main, shared) {
  const { config } = await get(of(shared.router, "configuration"));
  const area = h("textarea", { spellcheck: "false", "aria-label": "Configuration", "aria-describedby": "marks" });
  area.value = config;
  const marks = h("ul.marks", { id: "marks", "aria-live": "polite" });
  const difference = h("pre", { hidden: true });
  const jobs = h("div");
  const button = (label, run, kind = "button") => h(kind, { type: "button", onclick: () => run().catch((why) => say(why.message)) }, label);
  const seconds = h("input", { type: "number", min: "0", max: "86400", value: "60", "aria-label": "Seconds to confirm" });
  const apply = button("Apply", change, "button.main");
  let [timer, number, sound] = [0, 0, true];

  async function check() {
    const mine = (number += 1);
    const checked = await call("POST", "/api/v1/configurations/check", { text: area.value });
    // A later one has been asked for.
    if (mine !== number) return checked;
    sound = checked.sound;
    apply.disabled = !sound;
    marks.replaceChildren(...checked.diagnostics.map(mark));
    if (!checked.diagnostics.length) marks.append(h("li.good", {}, "No errors."));
    return checked;
  }

  function mark(diagnostic) {
    const { line, column, length } = spot(diagnostic);
    const kind = diagnostic.severity === "error" ? "span.bad" : "span.warn";
    const jump = () => {
      if (!line) return;
      const lines = area.value.split("\n");
      const at = lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0) + Math.max(0, (column ?? 1) - 1);
      area.focus();
      area.setSelectionRange(at, at + Math.max(1, length ?? 1));
      area.scrollTop = (line - 4) * (area.scrollHeight / Math.max(1, lines.length));
    };
    return h("li", {}, h("button", { type: "button", onclick: jump },
      h(kind, {}, `${line ? `line ${line}: ` : ""}${diagnostic.severity ?? "error"}${diagnostic.code ? ` ${diagnostic.code}` : ""}: `), diagnostic.message,
      diagnostic.help ? h("span.faint", {}, ` — ${diagnostic.help}`) : null));
  }

  function compare() {
    const lines = diff(config.split("\n"), area.value.split("\n"));
    difference.hidden = false;
    difference.replaceChildren(...(lines.some(([sign]) => sign !== " ")
      ? near(lines).map(([sign, text]) => h(sign === "+" ? "span.added" : sign === "-" ? "span.removed" : "span", {}, `${sign} ${text}\n`))
      : ["No difference from what runs."]));
  }

  async function change() {
    compare();
    if (!(await check()).sound) return;
    const wait = Number(seconds.value) || undefined;
    const question = wait ? `Apply? Unless you confirm within ${wait} s, the present one comes back.` : "Apply without a way back?";
    if (!confirm(question)) return;
    const body = { text: area.value, ...(wait ? { confirm_s: wait } : {}) };
    const job = await call("PUT", of(shared.router, "configuration"), body);
    jobs.prepend(follow(job, shared, null, (j) => `apply-${j.id}.json`));
  }
  const write = (what) => async () => {
    const told = await call("POST", of(shared.router, "configuration", what));
    jobs.prepend(h("p", { role: "status" }, told.message || what));
  };

  area.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => check().catch((why) => say(why.message)), CALM_MS); });
  area.addEventListener("keydown", (event) => {
    // Tab leaves the field, as everywhere; Ctrl+Enter checks.
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); check().catch((why) => say(why.message)); }
  });
  put(main, h("p.faint", {}, "Secrets are left out of what is shown: put them back before you apply."), area, marks,
    h("div.bar", {}, button("Compare", async () => compare()), apply, h("label", {}, "confirm within, s ", seconds), button("Confirm", write("confirm")), button("Roll back", write("rollback"))),
    difference, jobs);
  await check().catch((why) => { if (why.status === 401) throw why; marks.replaceChildren(h("li.warn", {}, why.message)); });
}

/** The place of a diagnostic, as the compiler's JSON has it. */
function spot(diagnostic) {
  const { line, column, end_line, end_column } = diagnostic.place ?? {};
  return { line, column, length: end_line === line ? end_column - column : 1 };
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
