// SPDX-License-Identifier: MIT OR Apache-2.0
// Elements of the page without HTML in strings: text from a router never becomes markup.

/** An element: its name with classes (`td.number`), attributes and listeners, children. */
export function h(what, attributes = {}, ...children) {
  const [name, ...classes] = what.split(".");
  const made = document.createElement(name);
  if (classes.length) made.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key in made && typeof value !== "string") made[key] = value;
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value);
  }
  put(made, ...children);
  return made;
}

/** Adds children: elements, text, or lists of these. */
export function put(into, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) into.append(child instanceof Node ? child : String(child));
  }
  return into;
}

/** A number in few characters: 0, 12.3, 999, 1.23k, 45.6M. */
export function short(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const units = ["", "k", "M", "G", "T", "P"];
  let unit = 0;
  while (Math.abs(value) >= 999.5 && unit + 1 < units.length) { value /= 1000; unit += 1; }
  const digits = unit === 0 && Number.isInteger(value) ? 0 : Math.abs(value) < 9.995 ? 2 : Math.abs(value) < 99.95 ? 1 : 0;
  return value.toFixed(digits) + units[unit];
}

export const percent = (share) => share === null || share === undefined ? "–" : (100 * share).toFixed(1) + " %";

/** Sets the text of an element, if it is another than before. */
export function text(element, words) {
  const only = element.firstChild;
  if (only?.nodeType === Node.TEXT_NODE && element.childNodes.length === 1) {
    if (only.data !== words) only.data = words;
  } else if (element.textContent !== words || only) element.textContent = words;
}

/** Shows a value in a cell; what is there already stays, and keeps its focus. */
function cell(place, shown, is_fresh) {
  if (!(shown instanceof Node)) text(place, String(shown));
  else if (is_fresh || !place.firstChild?.isEqualNode(shown)) place.replaceChildren(shown);
}

/**
 * A table that its headings sort. `columns`: [title, row => value, {number, show, mono, fresh}]; `fresh` is for what has listeners. `key(row)` names a
 * row, so that rows move instead of being made again.
 */
export function table(columns, options = {}) {
  let rows = [];
  let by = options.by ?? null;
  let down = options.down ?? true;
  const key = options.key ?? ((row, at) => at);
  const most = options.most ?? 500;
  const body = h("tbody");
  const lines = new Map();
  const end = h("tr", { hidden: true }, h("td.faint", { colspan: String(columns.length) }));
  const headings = columns.map(([title, , more = {}], at) => {
    const button = h("button", { type: "button", onclick: () => { down = by === at ? !down : Boolean(more.number); by = at; show(); } }, title);
    return h(more.number ? "th.number" : "th", { scope: "col" }, button);
  });
  function sorted() {
    if (by === null) return rows;
    const value = columns[by][1];
    const order = (a, b) => {
      const [x, y] = [value(a), value(b)];
      if (typeof x === "number" || typeof y === "number") return (x ?? -Infinity) - (y ?? -Infinity);
      return String(x ?? "").localeCompare(String(y ?? ""));
    };
    return rows.slice().sort((a, b) => (down ? -order(a, b) : order(a, b)));
  }
  function fill(line, row) {
    columns.forEach(([, value, more = {}], at) => {
      const found = value(row);
      cell(line.children[at], more.show ? more.show(found, row) : found ?? "–", more.fresh);
    });
  }
  const made = () => h("tr", {}, columns.map(([, , more = {}]) => h(more.number ? "td.number" : more.mono ? "td.mono" : "td")));
  /** Where the focus is in the table: a row and a column. */
  function focused() {
    const place = body.contains(document.activeElement) ? document.activeElement.closest("td") : null;
    return place && { element: document.activeElement, line: place.parentElement, at: place.cellIndex };
  }
  function show() {
    headings.forEach((th, at) => {
      const sort = at !== by ? "none" : down ? "descending" : "ascending";
      if (th.getAttribute("aria-sort") !== sort) th.setAttribute("aria-sort", sort);
    });
    const all = sorted();
    const focus = focused();
    const names = new Set();
    // More rows than people read would cost each look.
    all.slice(0, most).forEach((row, at) => {
      const name = key(row, at);
      const line = lines.get(name) ?? made();
      lines.set(name, line);
      names.add(name);
      fill(line, row);
      if (body.children[at] !== line) body.insertBefore(line, body.children[at] ?? null);
    });
    for (const [name, line] of lines) if (!names.has(name)) { lines.delete(name); line.remove(); }
    const words = all.length > most ? `and ${all.length - most} more` : all.length ? "" : options.none ?? "none";
    text(end.firstChild, words);
    if (end.hidden !== !words) end.hidden = !words;
    if (focus && document.activeElement !== focus.element) focus.line.children[focus.at]?.querySelector("a, button")?.focus({ preventScroll: true });
  }
  const element = h("div.scroll", {}, h("table", {}, h("caption.skip", {}, options.caption ?? ""), h("thead", {}, h("tr", {}, headings)), body, h("tfoot", {}, end)));
  return { element, set(all) { rows = all; show(); } };
}

/** A bar for a share from 0 to 1, with words. */
export function bar(share, words) {
  const made = h("div.meter", {}, h("i"), h("span", {}, words));
  made.firstChild.style.width = `${Math.min(100, Math.max(0, 100 * share))}%`;
  made.classList.toggle("hot", share >= 0.8);
  return made;
}

/** A form with labelled fields: [name, label, attributes]. Calls `send` with an object of what is filled in. */
export function form(fields, label, send) {
  const inputs = fields.map(([name, title, more = {}]) => {
    const { options, ...attributes } = more;
    const input = options
      ? h("select", { name }, options.map((option) => h("option", { value: option }, option || "any")))
      : h("input", { name, autocomplete: "off", ...attributes });
    return attributes.type === "checkbox" ? h("label.row", {}, input, title) : h("label", { class: attributes.class ?? "" }, title, input);
  });
  const button = h("button.main", { type: "submit" }, label);
  const made = h("form", {
    onsubmit: async (event) => {
      event.preventDefault();
      const values = {};
      for (const field of made.elements) {
        if (!field.name) continue;
        if (field.type === "checkbox") { if (field.checked) values[field.name] = true; }
        else if (field.type === "number") { if (field.value !== "") values[field.name] = Number(field.value); }
        else if (field.value.trim() !== "") values[field.name] = field.value.trim();
      }
      button.disabled = true;
      try { await send(values, made); } finally { button.disabled = false; }
    },
  }, inputs, button);
  return made;
}

/** Says something that the user must know. */
export function say(words) {
  const box = document.getElementById("words");
  const line = h("div", {}, words, " ", h("button", { type: "button", onclick: () => line.remove() }, "Close"));
  box.append(line);
  while (box.children.length > 3) box.firstChild.remove();
}
