// SPDX-License-Identifier: MIT OR Apache-2.0
// A field for a configuration, with numbers of lines and with diagnostics in their lines.

import { h, text } from "./dom.js";

/** Lines that show a diagnostic in the text; the list below has all. */
const MARKED = 200;

/** The place of a diagnostic, as the compiler's JSON has it. */
export function spot(diagnostic) {
  const { line, column, end_line, end_column } = diagnostic.place ?? {};
  return { line, column, length: end_line === line ? Math.max(1, end_column - column) : 1 };
}

/** The field: `area` is its textarea, `mark(diagnostics)` shows what the compiler says, `jump(diagnostic)` goes there. */
export function editor(words, name) {
  const area = h("textarea", { spellcheck: "false", autocomplete: "off", "aria-label": name, "aria-describedby": "marks", wrap: "off" });
  area.value = words;
  const numbers = h("pre.numbers", { "aria-hidden": "true" });
  const layer = h("div.layer", { "aria-hidden": "true" });
  const element = h("div.editor", {}, numbers, h("div.code", {}, layer, area));
  let count = 0;

  function count_lines() {
    const now = area.value.split("\n").length;
    if (now === count) return;
    count = now;
    text(numbers, Array.from({ length: count }, (_, at) => at + 1).join("\n"));
  }
  function follow() {
    layer.style.transform = `translate(${-area.scrollLeft}px, ${-area.scrollTop}px)`;
    numbers.scrollTop = area.scrollTop;
  }

  /** A copy of a line lies below the text: it is invisible but for its mark and what is said behind it. */
  function marked(line, diagnostic) {
    const { line: number, column, length } = spot(diagnostic);
    const from = Math.max(0, (column ?? 1) - 1);
    const [before, middle, after] = [line.slice(0, from), line.slice(from, from + length), line.slice(from + length)];
    const kind = diagnostic.severity === "error" ? "div.marked" : "div.marked.warn";
    const made = h(kind, {}, before, h("u", {}, middle || " "), after, h("em", {}, diagnostic.message));
    made.style.top = `${(number - 1) * 1.5}em`;
    return made;
  }

  function mark(diagnostics) {
    const lines = area.value.split("\n");
    const first = new Map();
    for (const diagnostic of diagnostics) {
      const { line } = spot(diagnostic);
      if (line && line <= lines.length && (!first.has(line) || diagnostic.severity === "error")) first.set(line, diagnostic);
    }
    layer.replaceChildren(...[...first].slice(0, MARKED).map(([line, diagnostic]) => marked(lines[line - 1], diagnostic)));
    follow();
  }

  function jump(diagnostic) {
    const { line, column, length } = spot(diagnostic);
    if (!line) return;
    const lines = area.value.split("\n");
    const at = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0) + Math.max(0, (column ?? 1) - 1);
    area.focus();
    area.setSelectionRange(at, at + length);
    area.scrollTop = (line - 4) * (area.scrollHeight / Math.max(1, lines.length));
  }

  area.addEventListener("scroll", follow);
  // Marks of a text that has changed would be in wrong places until it is checked.
  area.addEventListener("input", () => { layer.replaceChildren(); count_lines(); });
  count_lines();
  return { element, area, mark, jump };
}
