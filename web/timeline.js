// SPDX-License-Identifier: MIT OR Apache-2.0
// Fetches the recording of the job that the address names (?job=N), for the profiler's viewer.

"use strict";

window.fetchRecording = async () => {
  const back = document.createElement("a");
  [back.href, back.textContent] = ["./#/profile", "Back to the router"];
  document.querySelector("header").prepend(back);
  const job = new URLSearchParams(location.search).get("job");
  const token = sessionStorage.getItem("junctor-token");
  const headers = { "content-type": "application/json", ...(token ? { authorization: `Bearer ${token}` } : {}) };
  const ask = async (path, more = {}) => {
    const response = await fetch(path, { headers, ...more });
    if (response.ok) return response;
    const told = await response.json().catch(() => ({}));
    throw new Error(response.status === 401 ? "no token is known in this tab; open the router's page first" : told.detail ?? `status ${response.status}`);
  };
  let view = await (await ask(`api/v1/jobs/${encodeURIComponent(job)}/views`, { method: "POST", body: JSON.stringify({ view: "timeline" }) })).json();
  const place = `api/v1/jobs/${view.id}`;
  while (view.state === "running") {
    await new Promise((over) => setTimeout(over, 500));
    view = await (await ask(place)).json();
  }
  if (view.state !== "done") throw new Error(view.message.trim() || view.state);
  const text = await (await ask(`${place}/result`)).text();
  ask(place, { method: "DELETE" }).catch(() => {});
  // The view is the viewer's page with the data in it.
  return text.slice(text.indexOf('id="data">') + 10, text.lastIndexOf("</script>\n<script>"));
};
