"use strict";
// The kinds of panels, each drawn into an element from what Prometheus has answered.

const palette = ["#56a64b", "#e0b400", "#3274d9", "#e02f44", "#ff780a", "#8f3bb8", "#19a7a0", "#a16e3b", "#5c6bc0", "#c2185b", "#37872d", "#7d6608"];

function make(parent, tag, attributes, text) {
  const e = tag === "svg" || parent instanceof SVGElement ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {})) {
    if (k === "style") for (const [name, value] of Object.entries(v)) e.style[name] = value;
    else e.setAttribute(k, v);
  }
  if (text !== undefined) e.textContent = text;
  parent.append(e);
  return e;
}

// legend is what a series is called: the template with its labels, or else all of them.
function legend(template, labels) {
  if (template) return template.replace(/{{\s*(\w+)\s*}}/g, (_, name) => labels[name] || "");
  const list = Object.entries(labels).filter(([k]) => k !== "__name__").map(([k, v]) => `${k}="${v}"`);
  return list.length ? `{${list.join(", ")}}` : "value";
}

const charts = {
  stat(box, panel, data) {
    const x = Number(data[0].value[1]), d = panel.fieldConfig.defaults;
    make(box, "div", { class: "stat", style: { color: colour(d, x) } }, shown(d, x));
  },

  gauge(box, panel, data) {
    const x = Number(data[0].value[1]), d = panel.fieldConfig.defaults, w = 150, h = 84;
    const svg = make(box, "svg", { viewBox: `0 0 ${w} ${h}`, width: "100%", height: "calc(100% - 20px)" });
    const arc = (from, to, r, width, stroke) => {
      const at = f => { const a = Math.PI * (1 - f); return `${w / 2 + r * Math.cos(a)} ${h - 8 - r * Math.sin(a)}`; };
      make(svg, "path", { d: `M ${at(from)} A ${r} ${r} 0 0 1 ${at(to)}`, fill: "none", stroke, "stroke-width": width });
    };
    const share = v => Math.min(1, Math.max(0, (v - d.min) / (d.max - d.min)));
    arc(0, 1, 56, 16, "#e4e7eb");
    if (share(x) > 0) arc(0, share(x), 56, 16, colour(d, x));
    d.thresholds.steps.forEach((s, i, all) => arc(share(s.value === null ? d.min : s.value), i + 1 < all.length ? share(all[i + 1].value) : 1, 68, 3, named[s.color]));
    make(svg, "text", { x: w / 2, y: h - 12, "text-anchor": "middle", class: "big" }, shown(d, x));
  },

  bargauge(box, panel, data) {
    const d = panel.fieldConfig.defaults, most = Math.max(...data.map(s => Number(s.value[1])), 1e-12);
    for (const s of data.slice(0, 9)) {
      const x = Number(s.value[1]), bar = make(box, "div", { class: "bar" });
      make(bar, "span", {}, legend(panel.targets[0].legendFormat, s.metric));
      make(bar, "div", { style: { width: 56 * x / most + "%" } });
      make(bar, "b", {}, shown(d, x));
    }
  },

  table(box, panel, data) {
    const { excludeByName: hidden, indexByName: order, renameByName: names } = panel.transformations[0].options;
    const labels = new Set(data.flatMap(s => Object.keys(s.metric)));
    const columns = [...labels, "Value"].filter(c => !hidden[c]).sort((a, b) => (order[a] ?? 99) - (order[b] ?? 99));
    const t = make(box, "table"), head = make(t, "tr");
    for (const c of columns) make(head, "th", { class: c === "Value" ? "value" : "" }, names[c] || c);
    for (const s of data) {
      const row = make(t, "tr");
      for (const c of columns) {
        if (c === "Value") make(row, "td", { class: "value" }, shown(panel.fieldConfig.defaults, Number(s.value[1])));
        else make(row, "td", {}, s.metric[c] || "");
      }
    }
  },

  timeseries(box, panel, data, span) {
    const d = panel.fieldConfig.defaults, stacked = d.custom.stacking.mode === "normal";
    const w = box.clientWidth - 16, h = box.clientHeight - 84, left = 62, bottom = 18;
    const svg = make(box, "svg", { width: w, height: h });
    const lines = data.map((s, i) => ({ name: s.name, colour: palette[i % palette.length], points: s.values.map(([t, v]) => [t, Number(v)]).filter(p => Number.isFinite(p[1])) })).filter(l => l.points.length);
    const sums = new Map();
    for (const l of lines) for (const p of l.points) {
      p[2] = stacked ? sums.get(p[0]) || 0 : 0; // where the area begins
      p[3] = p[2] + p[1];
      sums.set(p[0], p[3]);
    }
    let high = Math.max(...lines.flatMap(l => l.points.map(p => p[3])), 0);
    const ticks = scale(high || 1, d.unit === "bytes" ? 2 : 10);
    high = ticks[ticks.length - 1];
    const x = t => left + (w - left - 6) * (t - span.from) / (span.to - span.from), y = v => h - bottom - (h - bottom - 6) * v / high;
    for (const v of ticks) {
      make(svg, "line", { x1: left, x2: w - 6, y1: y(v), y2: y(v), stroke: "#e8eaed" });
      make(svg, "text", { x: left - 5, y: y(v) + 3, "text-anchor": "end" }, format(d.unit, v));
    }
    for (let i = 0; i < 5; i++) {
      const t = span.from + (span.to - span.from) * (i + 0.5) / 5;
      make(svg, "text", { x: x(t), y: h - 4, "text-anchor": "middle" }, new Date(t * 1000).toISOString().slice(11, 19));
    }
    for (const l of lines) for (const run of runs(l.points, span.step)) {
      const path = run.map((p, i) => `${i ? "L" : "M"}${x(p[0]).toFixed(1)} ${y(p[3]).toFixed(1)}`).join("");
      const floor = [...run].reverse().map(p => `L${x(p[0]).toFixed(1)} ${y(p[2]).toFixed(1)}`).join("");
      make(svg, "path", { d: path + floor + "Z", fill: l.colour, "fill-opacity": d.custom.fillOpacity / 100 });
      make(svg, "path", { d: path, fill: "none", stroke: l.colour, "stroke-width": 1.4 });
    }
    const key = make(box, "div", { class: "legend" });
    for (const l of lines) {
      const entry = make(key, "span");
      make(entry, "i", { style: { background: l.colour } });
      entry.append(l.name);
    }
  },
};

// scale are round values from 0 to beyond the highest.
function scale(high, base) {
  const unit = base ** Math.floor(Math.log(high / 4) / Math.log(base));
  const step = (base === 2 ? [1, 2] : [1, 2, 2.5, 5, 10]).map(f => f * unit).find(s => high / s <= 4.6) || base * unit;
  const list = [0];
  while (list[list.length - 1] < high) list.push(list.length * step);
  return list;
}

// runs are the parts of a line without a gap.
function runs(points, step) {
  const list = [];
  for (const p of points) {
    const last = list[list.length - 1];
    if (last && p[0] - last[last.length - 1][0] <= 1.5 * step) last.push(p);
    else list.push([p]);
  }
  return list;
}
