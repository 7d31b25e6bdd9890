// SPDX-License-Identifier: MIT OR Apache-2.0
// Calls of the API. The token stays in this tab.

const KEY = "junctor-token";
export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

/** What the API says when it refuses. */
export class Problem extends Error {
  constructor(status, told) {
    const place = told.where ?? told.place ?? "";
    super([told.detail ?? told.title ?? `status ${status}`, place && `(${place})`, told.fix && `— ${told.fix}`].filter(Boolean).join(" "));
    this.status = status;
    this.told = told;
  }
}

function request(method, path, body, signal) {
  const headers = { accept: "application/json" };
  if (token.get()) headers.authorization = `Bearer ${token.get()}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  return fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
}

async function checked(response) {
  if (response.ok) return response;
  const told = await response.json().catch(() => ({}));
  throw new Problem(response.status, told);
}

/** The JSON that is at a path. */
export async function call(method, path, body) {
  const response = await checked(await request(method, path, body));
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

export const get = (path, query = {}) => {
  const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null));
  return call("GET", words.size ? `${path}?${words}` : path);
};

/** The path of a resource of a router. */
export const of = (router, ...parts) => ["/api/v1/routers", router, ...parts].map((part, at) => (at ? encodeURIComponent(part) : part)).join("/");

/** Downloads a result under a name. */
export async function download(path, name) {
  const response = await checked(await request("GET", path));
  const place = URL.createObjectURL(await response.blob());
  const link = document.createElement("a");
  [link.href, link.download] = [place, name];
  link.click();
  setTimeout(() => URL.revokeObjectURL(place), 60_000);
}

/** The text of a result. */
export const text = async (path) => (await checked(await request("GET", path))).text();

/** Server-sent events: calls `take(kind, data)` until the signal aborts or the stream ends. EventSource sends no token, so fetch reads them. */
export async function events(path, take, signal) {
  const response = await checked(await request("GET", path, undefined, signal));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const field = (name) => part.split("\n").filter((line) => line.startsWith(name + ":")).map((line) => line.slice(name.length + 1).trim()).join("\n");
      const data = field("data");
      if (data) take(field("event") || "message", JSON.parse(data));
    }
  }
}
