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

/** A table that its headings sort. `columns`: [title, row => value, {number, show, mono}]. */
export function table(columns, options = {}) {
  let rows = [];
  let by = options.by ?? null;
  let down = options.down ?? true;
  const body = h("tbody");
  const headings = columns.map(([title, , more = {}], at) => {
    const button = h("button", { type: "button", onclick: () => { down = by === at ? !down : Boolean(more.number); by = at; show(); } }, title);
    return h(more.number ? "th.number" : "th", { scope: "col" }, button);
  });
  function show() {
    const sorted = rows.slice();
    if (by !== null) {
      const value = columns[by][1];
      const order = (a, b) => {
        const [x, y] = [value(a), value(b)];
        if (typeof x === "number" || typeof y === "number") return (x ?? -Infinity) - (y ?? -Infinity);
        return String(x ?? "").localeCompare(String(y ?? ""));
      };
      sorted.sort((a, b) => (down ? -order(a, b) : order(a, b)));
    }
    headings.forEach((th, at) => th.setAttribute("aria-sort", at !== by ? "none" : down ? "descending" : "ascending"));
    // More rows than people read would cost each look.
    const most = options.most ?? 500;
    const cells = (row) => columns.map(([, value, more = {}]) => {
      const kind = more.number ? "td.number" : more.mono ? "td.mono" : "td";
      const found = value(row);
      return h(kind, {}, more.show ? more.show(found, row) : found ?? "–");
    });
    body.replaceChildren(...sorted.slice(0, most).map((row) => h("tr", {}, cells(row))));
    if (sorted.length > most) body.append(h("tr", {}, h("td", { colspan: String(columns.length) }, `and ${sorted.length - most} more`)));
    if (!sorted.length) body.append(h("tr", {}, h("td.faint", { colspan: String(columns.length) }, options.none ?? "none")));
  }
  const made = h("div.scroll", {}, h("table", {}, h("caption.skip", {}, options.caption ?? ""), h("thead", {}, h("tr", {}, headings)), body));
  return { element: made, set(all) { rows = all; show(); } };
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
