"use strict";
(() => {
  const box = document.getElementById("scan");
  if (!box) return;
  const [form, state, steps, done] = ["scan-form", "scan-state", "scan-steps", "scan-done"].map((id) => document.getElementById(id));
  const report = document.getElementById("scan-report");
  const say = (kind, more) => {
    state.textContent = more ? `${box.dataset[kind]}: ${more}` : box.dataset[kind];
    box.dataset.state = kind;
  };
  const told = new Set();
  const step = (number, text) => {
    if (told.has(number)) return;
    told.add(number);
    const item = document.createElement("li");
    item.textContent = text;
    steps.append(item);
  };
  const watch = (id) => {
    const source = new EventSource(`api/scans/${id}/events`);
    source.addEventListener("step", (event) => {
      const { number, text } = JSON.parse(event.data);
      step(number, text);
    });
    source.addEventListener("state", (event) => {
      const found = JSON.parse(event.data);
      say(found.state, found.problem);
      if (found.state === "done") {
        report.href = `scans/${id}/report.html`;
        done.hidden = false;
        report.focus();
      }
      if (found.state === "done" || found.state === "failed") source.close();
    });
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const [model, file, token] = ["model", "file", "token"].map((id) => document.getElementById(id));
    told.clear();
    steps.replaceChildren();
    done.hidden = true;
    say("waiting");
    const headers = { "Content-Type": "application/json", "Accept-Language": document.documentElement.lang };
    // The token goes with this request alone: not into an address, not into storage.
    if (token && token.value) headers.Authorization = `Bearer ${token.value}`;
    try {
      const body = file.files.length ? `{"fingerprint": ${await file.files[0].text()}}` : JSON.stringify({ model: model.value.trim() });
      const answer = await fetch("api/scans", { method: "POST", headers, body });
      const found = await answer.json();
      if (!answer.ok) return say("failed", found.error);
      watch(found.id);
    } catch (error) {
      say("failed", String(error.message));
    }
  });
})();
