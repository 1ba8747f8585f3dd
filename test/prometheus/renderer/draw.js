"use strict";
// Draws one dashboard: reads the JSON that Grafana imports, asks Prometheus each panel's
// queries, and lays the panels out by Grafana's grid. What goes wrong is in window.failures,
// and body has the attribute data-done when all is drawn.

window.failures = [];
const wanted = new URLSearchParams(location.search);
const span = { from: Number(wanted.get("from")), to: Number(wanted.get("to")), step: Number(wanted.get("step")) };

function substituted(text) {
  return text.replaceAll("$__rate_interval", wanted.get("rate")).replaceAll("$__range", Math.round(span.to - span.from) + "s")
    .replaceAll("$job", wanted.get("job")).replaceAll("$vim", ".*").replaceAll("$instance", wanted.get("instance"));
}

async function ask(target) {
  const q = new URLSearchParams({ query: substituted(target.expr) });
  let api = "query";
  if (target.range) {
    api = "query_range";
    for (const [name, key] of [["start", "from"], ["end", "to"], ["step", "step"]]) q.set(name, span[key]);
  } else q.set("time", span.to);
  const answer = await (await fetch(`/api/v1/${api}?${q}`)).json();
  if (answer.status !== "success") throw new Error(answer.error);
  return answer.data.result.map(s => ({ ...s, name: legend(target.legendFormat, s.metric) }));
}

async function draw(panel, box) {
  if (panel.type === "text") {
    const body = make(box, "div", { class: "text" });
    for (const text of substituted(panel.options.content).split("\n\n")) {
      const p = make(body, "p");
      text.split("`").forEach((part, i) => i % 2 ? make(p, "code", {}, part) : p.append(part));
    }
    return;
  }
  const data = (await Promise.all(panel.targets.map(ask))).flat();
  if (data.length === 0) make(box, "div", { class: "empty" }, "No data");
  else charts[panel.type](box, panel, data, span);
}

async function main() {
  const board = await (await fetch("/dashboard/" + wanted.get("dashboard") + ".json")).json();
  const cell = 1176 / 24, line = 38;
  document.getElementById("title").textContent = board.title;
  const grid = document.getElementById("grid");
  let height = 0;
  const work = board.panels.map(panel => {
    const { x, y, w, h } = panel.gridPos, place = { left: x * cell + "px", top: y * line + "px", width: w * cell - 8 + "px", height: h * line - 8 + "px" };
    height = Math.max(height, (y + h) * line);
    if (panel.type === "row") {
      make(grid, "div", { class: "row", style: place }, substituted(panel.title));
      return null;
    }
    const box = make(grid, "section", { class: "panel", style: place });
    make(box, "h2", {}, substituted(panel.title));
    return draw(panel, box).catch(e => {
      window.failures.push(`${panel.title}: ${e.message}`);
      make(box, "div", { class: "error" }, e.message);
    });
  });
  grid.style.height = height + "px";
  await Promise.all(work);
}

main().catch(e => window.failures.push(String(e))).finally(() => document.body.setAttribute("data-done", ""));
