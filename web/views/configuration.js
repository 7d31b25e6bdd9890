// SPDX-License-Identifier: MIT OR Apache-2.0
// The configuration: edited, checked as it is typed, compared, applied.

import { call, get, of } from "../api.js";
import { assist } from "../assist.js";
import { difference } from "../diff.js";
import { h, put, say } from "../dom.js";
import { editor, spot } from "../editor.js";
import { follow } from "./jobs.js";

/** How long after the last key the text is checked. */
const CALM_MS = 400;
/** Diagnostics in the list. */
const LISTED = 100;

export async function configuration(main, shared) {
  const { config } = await get(of(shared.router, "configuration"));
  const field = editor(config, "Configuration");
  const { area } = field;
  const help = assist(area);
  const marks = h("ul.marks", { id: "marks", "aria-live": "polite" });
  const jobs = h("div");
  const button = (label, run, kind = "button") => h(kind, { type: "button", onclick: () => run().catch((why) => say(why.message)) }, label);
  const apply = button("Compare and apply", propose, "button.main");
  let [timer, number, sound] = [0, 0, true];

  async function check() {
    clearTimeout(timer);
    const mine = (number += 1);
    const checked = await call("POST", "/api/v1/configurations/check", { text: area.value });
    // A later one has been asked for.
    if (mine !== number) return checked;
    sound = checked.sound;
    apply.disabled = !sound;
    field.mark(checked.diagnostics);
    marks.replaceChildren(...checked.diagnostics.slice(0, LISTED).map(mark));
    if (!checked.diagnostics.length) marks.append(h("li.good", {}, "No errors."));
    return checked;
  }

  function mark(diagnostic) {
    const { line } = spot(diagnostic);
    const kind = diagnostic.severity === "error" ? "span.bad" : "span.warn";
    return h("li", {}, h("button", { type: "button", onclick: () => field.jump(diagnostic) },
      h(kind, {}, `${line ? `line ${line}: ` : ""}${diagnostic.severity ?? "error"}${diagnostic.code ? ` ${diagnostic.code}` : ""}: `), diagnostic.message,
      diagnostic.help ? h("span.faint", {}, ` — ${diagnostic.help}`) : null));
  }

  /** Shows what would change, and applies it if that is wanted. */
  async function propose() {
    if (!(await check()).sound) return;
    const changed = difference(config, area.value);
    const seconds = h("input", { type: "number", min: "0", max: "86400", value: "60", "aria-label": "Seconds to confirm" });
    const dialog = h("dialog.wide", { "aria-labelledby": "propose", onclose: () => dialog.remove() },
      h("h1", { id: "propose" }, "What would change"),
      h("pre", { tabindex: "0", "aria-label": "Differences" }, changed ?? "No difference from what runs."),
      h("p.faint", {}, "Unless you confirm in time, the present configuration comes back. With 0 s it does not."),
      h("form", { method: "dialog" }, h("label.row", {}, "Confirm within, s ", seconds),
        h("button.main", { type: "submit", value: "apply", disabled: !changed, onclick: () => change(Number(seconds.value)).catch((why) => say(why.message)) }, "Apply"),
        h("button", { type: "submit", onclick: () => rehearse().catch((why) => say(why.message)), disabled: !changed }, "Only try"),
        h("button", { type: "submit", value: "cancel" }, "Cancel")));
    document.body.append(dialog);
    dialog.showModal();
  }

  async function change(wait) {
    const body = { text: area.value, ...(wait ? { confirm_s: wait } : {}) };
    const job = await call("PUT", of(shared.router, "configuration"), body);
    jobs.prepend(follow(job, shared, null, (j) => `apply-${j.id}.json`));
  }
  /** The router says what would become of elements and state; nothing changes. */
  async function rehearse() {
    const job = await call("POST", of(shared.router, "configuration", "plan"), { text: area.value });
    jobs.prepend(follow(job, shared, null, (j) => `plan-${j.id}.json`));
  }
  const write = (what) => async () => {
    const told = await call("POST", of(shared.router, "configuration", what));
    jobs.prepend(h("p", { role: "status" }, told.message || what));
  };
  const restore = async () => { area.value = config; area.dispatchEvent(new Event("input")); };

  area.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => check().catch((why) => say(why.message)), CALM_MS); });
  area.addEventListener("keydown", (event) => {
    // Tab leaves the field, as everywhere; Ctrl+Enter checks.
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); check().catch((why) => say(why.message)); }
  });
  put(main, h("p.faint", {}, "Secrets are left out of what is shown: put them back before you apply."), field.element, marks,
    h("div.bar", {}, apply, button("Complete (Ctrl+Space)", help.complete), button("Explain (F1)", help.explain), button("Start over", restore), button("Confirm", write("confirm")), button("Roll back", write("rollback"))),
    help.element, jobs);
  await check().catch((why) => { if (why.status === 401) throw why; marks.replaceChildren(h("li.warn", {}, why.message)); });
}
