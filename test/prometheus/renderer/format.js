"use strict";
// Numbers as Grafana shows them in the units that Jibe's dashboards have. A unit that isn't
// here is an error: a picture must not show a number in a wrong one.

const steps = {
  s: [[1e-6, "µs"], [1e-3, "ms"], [1, "s"], [60, "min"], [3600, "hour"], [86400, "day"], [604800, "week"]],
  bytes: [[1, "B"], [1024, "KiB"], [1024 ** 2, "MiB"], [1024 ** 3, "GiB"]],
  short: [[1, ""], [1e3, "K"], [1e6, "Mil"]],
};
const rates = { ops: "ops/s", cps: "c/s", reqps: "req/s" };

// digits is a number with as many as tell something.
function digits(x) {
  const size = Math.abs(x);
  const text = x.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

function format(unit, x) {
  if (unit === "percentunit") return digits(x * 100) + "%";
  if (unit in rates) return format("short", x) + " " + rates[unit];
  if (!(unit in steps)) throw new Error("no unit is called " + unit);
  let [size, name] = steps[unit][0];
  if (unit === "s" && x === 0) return "0 s";
  for (const [s, n] of steps[unit]) if (Math.abs(x) >= s) [size, name] = [s, n];
  const text = digits(x / size);
  const many = ["hour", "day", "week"].includes(name) && text !== "1" ? "s" : "";
  return (text + " " + name + many).trim();
}

// shown is a value as a panel shows it: by its name where it has one.
function shown(defaults, x) {
  for (const m of defaults.mappings || []) if (m.options[String(x)]) return m.options[String(x)].text;
  return format(defaults.unit, "decimals" in defaults ? Number(x.toFixed(defaults.decimals)) : x);
}

// colours are Grafana's names of colours in thresholds, dark enough to read on white.
const named = { green: "#1a7f37", yellow: "#b08800", red: "#d1242f", blue: "#1f60c4" };

function colour(defaults, x) {
  let c = "#24292e";
  for (const s of (defaults.thresholds || { steps: [] }).steps) if (s.value === null || x >= s.value) c = named[s.color];
  return c;
}
