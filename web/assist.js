// SPDX-License-Identifier: MIT OR Apache-2.0
// What the language server knows, in the field of a configuration: a list of what may be written, and what a word means.

import { call } from "./api.js";
import { h, say, text } from "./dom.js";

/** Offers that are shown. */
const SHOWN = 50;
const WORD = /[A-Za-z0-9_@]*$/;

/** The place of the caret: line and column from 1 on. */
function caret(area) {
  const before = area.value.slice(0, area.selectionStart);
  const line = before.split("\n");
  return { line: line.length, column: line.at(-1).length + 1, before: line.at(-1) };
}

const ask = (area, what) => {
  const { line, column } = caret(area);
  return call("POST", `/api/v1/configurations/${what}`, { text: area.value, line, column });
};

/** Adds both to a field. `element` is what explains a word; `complete()` and `explain()` are for buttons. */
export function assist(area) {
  const list = h("ul.offers", { id: "offers", role: "listbox", "aria-label": "Completions", hidden: true });
  const ruler = h("span.ruler", { "aria-hidden": "true" });
  const told = h("pre.told", { hidden: true, role: "status", tabindex: "0", "aria-label": "Explanation" });
  area.after(list, ruler);
  area.setAttribute("aria-controls", "offers");
  area.setAttribute("aria-autocomplete", "list");
  let [items, at, number] = [[], 0, 0];

  function close() {
    number += 1;
    list.hidden = true;
    area.removeAttribute("aria-activedescendant");
  }
  function choose(next) {
    at = (next + list.children.length) % list.children.length;
    for (const [i, line] of [...list.children].entries()) line.setAttribute("aria-selected", String(i === at));
    area.setAttribute("aria-activedescendant", list.children[at].id);
    list.children[at].scrollIntoView({ block: "nearest" });
  }
  function place() {
    const { line, before } = caret(area);
    text(ruler, before.replace(WORD, ""));
    const height = parseFloat(getComputedStyle(area).lineHeight);
    const below = line * height + 8 - area.scrollTop;
    const left = Math.min(8 + ruler.offsetWidth - area.scrollLeft, area.clientWidth - list.offsetWidth);
    const is_above = below + list.offsetHeight > area.clientHeight && below - height > list.offsetHeight;
    list.style.left = `${Math.max(0, left)}px`;
    list.style.top = `${is_above ? below - height - list.offsetHeight : below}px`;
  }
  /** Shows those offers that begin with what is written of the word. */
  function show() {
    const word = WORD.exec(caret(area).before)[0].toLowerCase();
    const found = items.filter((item) => item.label.toLowerCase().startsWith(word)).slice(0, SHOWN);
    if (!found.length) return close();
    list.replaceChildren(...found.map((item, i) => h("li", { id: `offer-${i}`, role: "option", onmousedown: (event) => { event.preventDefault(); take(item); } },
      h("b", {}, item.label), " ", h("span.faint", {}, item.detail.slice(0, 90)))));
    list.hidden = false;
    place();
    choose(0);
  }
  function take(item) {
    const word = WORD.exec(caret(area).before)[0];
    const end = area.selectionStart;
    close();
    area.focus();
    area.setSelectionRange(end - word.length, end);
    // So that it can be undone.
    document.execCommand("insertText", false, item.label);
  }

  async function complete() {
    const mine = (number += 1);
    area.focus();
    const found = await ask(area, "completion");
    if (mine !== number) return;
    items = found.items;
    show();
  }
  async function explain() {
    const { text: words } = await ask(area, "hover");
    told.hidden = false;
    text(told, words ?? "There is no word of the language here.");
  }
  const failed = (why) => say(why.message);

  area.addEventListener("keydown", (event) => {
    if (event.key === " " && event.ctrlKey) { event.preventDefault(); complete().catch(failed); return; }
    if (event.key === "F1") { event.preventDefault(); explain().catch(failed); return; }
    if (list.hidden) return;
    const keys = {
      ArrowDown: () => choose(at + 1), ArrowUp: () => choose(at - 1), Escape: close,
      Enter: () => list.children[at].dispatchEvent(new MouseEvent("mousedown")),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  area.addEventListener("input", () => { if (!list.hidden) show(); });
  area.addEventListener("scroll", () => { if (!list.hidden) place(); });
  area.addEventListener("blur", close);
  return { element: told, complete, explain };
}
