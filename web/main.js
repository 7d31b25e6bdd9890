// SPDX-License-Identifier: MIT OR Apache-2.0
// The page's frame: the router that is looked at, the page that is shown, the live stream, the token.

import { events, get, of, token } from "./api.js";
import { h, say, text } from "./dom.js";
import { overview } from "./views/overview.js";
import { graph } from "./views/graph.js";
import { drops } from "./views/drops.js";
import { ports } from "./views/ports.js";
import { routes } from "./views/routes.js";
import { sessions } from "./views/sessions.js";
import { firewall } from "./views/firewall.js";
import { trace } from "./views/trace.js";
import { capture } from "./views/capture.js";
import { profile } from "./views/profile.js";
import { tests } from "./views/tests.js";
import { configuration } from "./views/configuration.js";

/** Name in the address, title, and what shows it. */
const PAGES = [
  ["overview", "Overview", overview],
  ["graph", "Graph", graph],
  ["drops", "Drops", drops],
  ["ports", "Ports", ports],
  ["routes", "Routes", routes],
  ["sessions", "Sessions", sessions],
  ["firewall", "Firewall", firewall],
  ["trace", "Trace", trace],
  ["capture", "Captures", capture],
  ["profile", "Profile", profile],
  ["tests", "Tests", tests],
  ["configuration", "Configuration", configuration],
];
/** What is kept of so many looks for plots: five minutes. */
const KEPT = 300;
/** The wait before a stream that ended is opened again. */
const AGAIN_MS = 2000;

const place = (id) => document.getElementById(id);

/** What pages share; each also gets `on`, which registers for looks until the page is left. */
const shared = {
  router: null,
  last: null,
  past: [],
  takers: new Set(),
  left: null,
  go(page, ...parts) { location.hash = "#/" + [page, ...parts].map(encodeURIComponent).join("/"); },
};

/** Registers for looks until a page is left; `take` gets the look and the past. */
function on(left, take) {
  if (left.signal.aborted) return;
  shared.takers.add(take);
  left.signal.addEventListener("abort", () => shared.takers.delete(take));
  if (shared.last) take(shared.last, shared.past);
}

/** What plots need of a look; the whole of some hundred would fill the browser's memory. */
function kept(look) {
  const drops = new Map();
  for (const { reason, packets_per_s: rate } of look.drops) if (rate > 0) drops.set(reason, (drops.get(reason) ?? 0) + rate);
  return {
    at: Date.now(), drops,
    cores: look.cores.map((core) => [core.worker, core.busy_share]),
    ports: look.ports.map((port) => [port.name, port.packets_per_s]),
  };
}

function take_look(look) {
  shared.last = look;
  shared.past.push(kept(look));
  if (shared.past.length > KEPT) shared.past.shift();
  state(`live · ${look.router.version} · pid ${look.router.pid}`, "good");
  shared.takers.forEach((take) => take(look, shared.past));
  // For tests, and for whoever looks into the page by its console.
  window.dispatchEvent(new Event("look"));
}

let stream = null;

function state(words, kind) {
  if (place("state").className !== kind) place("state").className = kind;
  text(place("state"), words);
}

/** Follows a router until another is chosen. The stream pauses while nobody sees the page. */
async function follow(router) {
  stream?.abort();
  [shared.last, shared.past] = [null, []];
  shared.router = router;
  if (!router) return;
  const own = (stream = new AbortController());
  while (!own.signal.aborted) {
    if (document.hidden) {
      await new Promise((seen) => document.addEventListener("visibilitychange", seen, { once: true }));
      continue;
    }
    const hide = new AbortController();
    const hidden = () => document.hidden && hide.abort();
    document.addEventListener("visibilitychange", hidden);
    try {
      await events(of(router, "live"), (kind, look) => {
        if (kind === "end") state("the router has ended", "bad");
        if (kind === "rates") take_look(look);
      }, AbortSignal.any([own.signal, hide.signal]));
    } catch (why) {
      if (own.signal.aborted) return;
      if (why.status === 401) return ask();
      if (!hide.signal.aborted) state(`no live values: ${why.message}`, "bad");
    } finally {
      document.removeEventListener("visibilitychange", hidden);
    }
    if (!document.hidden) await new Promise((over) => setTimeout(over, AGAIN_MS));
  }
}

/** Asks for a token. */
function ask() {
  if (document.querySelector("dialog[open]")) return;
  const field = h("input", { type: "password", name: "token", required: true, autocomplete: "off", "aria-label": "Token" });
  const dialog = h("dialog", { oncancel: (event) => event.preventDefault() },
    h("h1", {}, "A token, please"),
    h("p", {}, "The API answers those who show a token. 'junctor manage --new-token NAME:ROLE' makes one. It stays in this tab."),
    h("form", { onsubmit: (event) => { event.preventDefault(); token.set(field.value.trim()); dialog.close(); dialog.remove(); start(); } },
      field, h("button.main", { type: "submit" }, "Go on")));
  document.body.append(dialog);
  dialog.showModal();
}

/** Shows the page that the address names. */
async function show() {
  const [name, ...parts] = location.hash.replace(/^#\//, "").split("/").map(decodeURIComponent);
  const [key, title, view] = PAGES.find(([known]) => known === name) ?? PAGES[0];
  shared.left?.abort();
  shared.left = new AbortController();
  for (const link of place("pages").children) {
    if (link.dataset.page === key) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  menu(false);
  document.title = `${title} · Junctor`;
  // A page that is left while it fetches goes on in an element that nobody sees.
  const main = h("div", {}, h("h1", {}, title));
  place("view").replaceChildren(main);
  if (!shared.router && key !== "tests") {
    put_none(main);
    return;
  }
  main.setAttribute("aria-busy", "true");
  try {
    await view(main, { ...shared, on: on.bind(shared, shared.left) }, parts);
  } catch (why) {
    failed(why);
  } finally {
    main.removeAttribute("aria-busy");
  }
}

function put_none(main) {
  main.append(h("p", {}, "No router runs on this machine. Start one with ", h("code", {}, "junctor run CONF"), ", then choose it above."));
}

function failed(why) {
  if (why.name === "AbortError") return;
  if (why.status === 401) ask();
  else say(why.message);
}
window.addEventListener("unhandledrejection", (event) => { event.preventDefault(); failed(event.reason); });

/** Routers that run, for the list. */
async function list() {
  const { routers } = await get("/api/v1/routers");
  const choice = place("router");
  const before = shared.router ?? sessionStorage.getItem("junctor-router");
  choice.replaceChildren(...routers.map((router) => h("option", { value: router.name }, router.name)));
  if (!routers.length) choice.append(h("option", { value: "" }, "none runs"));
  const now = routers.some((router) => router.name === before) ? before : routers[0]?.name ?? null;
  choice.value = now ?? "";
  return now;
}

async function start() {
  place("leave").hidden = !token.get();
  try {
    const router = await list();
    follow(router);
    await show();
  } catch (why) {
    failed(why);
  }
}

const THEMES = ["system", "dark", "light"];
function theme(next) {
  const chosen = next ?? localStorage.getItem("junctor-theme") ?? "system";
  localStorage.setItem("junctor-theme", chosen);
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  place("theme").textContent = { system: "◐", dark: "●", light: "○" }[chosen];
  place("theme").title = `Colours: ${chosen}`;
  place("theme").setAttribute("aria-label", `Colours: ${chosen}`);
}

/** On a small screen the list of pages is folded. */
function menu(is_open) {
  place("pages").classList.toggle("open", is_open);
  place("menu").setAttribute("aria-expanded", String(is_open));
}
place("menu").addEventListener("click", () => menu(!place("pages").classList.contains("open")));
place("menu").addEventListener("keydown", (event) => { if (event.key === "Escape") menu(false); });

place("pages").append(...PAGES.map(([key, title]) => h("a", { href: `#/${key}`, "data-page": key }, title)));
place("theme").addEventListener("click", () => {
  const now = localStorage.getItem("junctor-theme") ?? "system";
  theme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
});
place("leave").addEventListener("click", () => { token.forget(); location.reload(); });
place("router").addEventListener("change", (event) => {
  sessionStorage.setItem("junctor-router", event.target.value);
  follow(event.target.value || null);
  show();
});
place("router").addEventListener("pointerdown", () => list().then((now) => {
  // The one that was followed may have ended, and another have taken its place.
  if (now === shared.router) return;
  follow(now);
  show();
}).catch(failed));
// The address names the page, so this link may not change it.
document.querySelector("a.skip").addEventListener("click", (event) => { event.preventDefault(); place("view").focus(); });
window.addEventListener("hashchange", show);
theme();
start();
