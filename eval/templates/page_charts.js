"use strict";
// The matrix of contestants and tasks, and the charts, drawn by Observable Plot.

const COLORS = [0, 1, 2, 3, 4, 5, 6, 7].map((number) => `var(--k${number})`);
const percent = (share) => (share === null || share === undefined ? "" : (100 * share).toFixed(1));
const signed = (share) => `${share >= 0 ? "+" : "−"}${Math.abs(100 * share).toFixed(1)}`;

/** An element with attributes, texts and children; a text is never read as HTML. */
function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

function fill(id, ...children) {
  document.getElementById(id).replaceChildren(...children.filter(Boolean));
}

/** Contestants by tasks: accuracy, the difference to the chosen rival, and links to the samples that flipped. */
function drawMatrix() {
  const tasks = data.tasks.length > 1 ? [ALL, ...data.tasks.keys()] : [...data.tasks.keys()];
  const head = tasks.map((task) => make("th", { scope: "col" }, task === ALL ? "mean of tasks" : breakable(data.tasks[task])));
  const rows = data.contestants.map((label, who) => {
    const name = make("th", { scope: "row" }, make("a", { href: linkTo({ who: label, sample: "" }) }, label));
    const row = make("tr", { class: who === chosen.base ? "base" : null }, name);
    row.append(...tasks.map((task) => matrixCell(who, task)));
    return row;
  });
  const table = make("table", { class: "matrix" }, make("thead", {}, make("tr", {}, make("th", {}, "contestant"), ...head)));
  table.append(make("tbody", {}, ...rows));
  fill("matrix", table);
}

/** A name that may be broken behind an underscore. */
function breakable(name) {
  const made = make("span");
  name.split(/(?<=_)/).forEach((part) => made.append(part, make("wbr")));
  return made;
}

function matrixCell(who, task) {
  const arm = arms.get(`${who},${task}`);
  if (!arm || arm.value === null) return make("td", { class: "n soft" }, "–");
  const cell = make("td", { class: "n" }, make("b", {}, percent(arm.value)));
  const pair = who === chosen.base ? null : pairOf(who, chosen.base, task);
  const clusters = arm.clusters < arm.n ? ` in ${arm.clusters} clusters` : "";
  cell.title = `${percent(arm.low)} to ${percent(arm.high)} (95 %), n = ${arm.n}${clusters}`;
  if (!pair) return cell;
  const sure = (pair.p_holm === null ? pair.p : pair.p_holm) < 0.05;
  cell.style.setProperty("--shade", `${Math.min(60, Math.abs(pair.value) * 200).toFixed(0)}%`);
  cell.classList.add(pair.value >= 0 ? "up" : "down");
  cell.title += `\n${tellPair(pair)}`;
  const told = make("small", {}, `${signed(pair.value)}${sure ? "*" : ""} `);
  for (const [flip, sign, count] of [["gained", "▲", pair.better], ["lost", "▼", pair.worse]]) {
    told.append(count ? flipLink(who, task, flip, `${sign}${count}`) : make("span", { class: "soft" }, `${sign}0`), " ");
  }
  cell.append(told);
  return cell;
}

/** A link to the samples that a contestant gains from, or loses to, the chosen rival; the first of them is opened. */
function flipLink(who, task, flip, text) {
  const label = data.contestants[who], where = task === ALL ? "" : data.tasks[task];
  const told = `${text.slice(1)} samples ${flip} by ${label}${where ? ` on ${where}` : ""}`;
  const filters = { who: label, task: where, flip, verdict: "", disagree: "", q: "", sample: "" };
  return make("a", { href: linkTo(filters), class: "flip", "aria-label": told, "data-open": "samples" }, text);
}

function tellPair(pair) {
  const p = pair.p < 0.0001 ? "p < 0.0001" : `p = ${pair.p.toFixed(4)}`;
  const holm = pair.p_holm === null ? "" : `, ${pair.p_holm.toFixed(4)} after Holm`;
  return `${signed(pair.value)} points [${signed(pair.low)}, ${signed(pair.high)}], n = ${pair.n} (${pair.out} left out), `
    + `${pair.better} gained, ${pair.worse} lost, ${pair.test} ${p}${holm}`;
}

/** The differences of all contestants to the chosen rival with their intervals, on the chosen task or on all. */
function drawForest() {
  const task = chosen.task;
  const rows = data.contestants.map((label, who) => ({ label, pair: pairOf(who, chosen.base, task) }))
    .filter((row) => row.pair).map(({ label, pair }) => ({ label, ...pair, told: `${label}: ${tellPair(pair)}` }));
  const where = task === ALL ? "all samples" : data.tasks[task];
  const title = `Difference to ${data.contestants[chosen.base]} on ${where}, percentage points with 95 % interval`;
  if (!rows.length) return fill("forest");
  fill("forest", figure(title, {
    width: 860, height: 60 + 22 * rows.length, marginLeft: marginFor(rows.map((row) => row.label)), marginRight: 20,
    x: { label: null, grid: true, transform: (share) => 100 * share }, y: { label: null, domain: rows.map((r) => r.label) },
    marks: [
      Plot.ruleX([0], { strokeOpacity: 0.6 }),
      Plot.ruleY(rows, { y: "label", x1: "low", x2: "high", strokeWidth: 2, stroke: "var(--k0)" }),
      Plot.dot(rows, { y: "label", x: "value", r: 4.5, fill: "var(--k0)", title: "told", tip: tips }),
    ],
  }, rows.map((row) => row.told)));
}

const tips = { fill: "var(--card)" };

function marginFor(labels) {
  return Math.min(440, 20 + 6.4 * Math.max(...labels.map((label) => label.length)));
}

/** A chart under its title, with the same figures in words for who cannot see it. */
function figure(title, options, told) {
  const drawn = Plot.plot({ width: 760, style: { background: "transparent", fontSize: "12px" }, ...options });
  const svg = drawn.tagName === "figure" ? drawn.querySelector("svg:last-of-type") : drawn;
  drawn.querySelectorAll("g[aria-label]").forEach((part) => part.removeAttribute("aria-label")); // the chart has one
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${title}. ${told.slice(0, 40).join("; ")}`);
  return make("figure", { class: "chart" }, make("figcaption", {}, title), drawn);
}

function lineRows({ lines }) {
  return lines.flatMap(([label, points]) => points.map(([x, value, low, high]) => ({ label, x, value, low, high })));
}

/** Accuracy along a swept number, a chart for each number and task. */
function drawLines() {
  const share = { label: "accuracy %", grid: true, transform: (value) => 100 * value, domain: [0, 100] };
  fill("lines", ...data.lines.map((chart) => {
    const rows = lineRows(chart), { factor, task, chance } = chart;
    const xs = rows.map((row) => row.x), wide = Math.min(...xs) > 0 && Math.max(...xs) / Math.min(...xs) >= 30;
    const told = rows.map((row) => `${row.label} at ${row.x}: ${percent(row.value)}`);
    const title = chance === null ? "" : ", dashed: chance";
    return figure(`${task}: accuracy against ${factor}, with 95 % intervals${title}`, {
      height: 320, x: { label: factor, type: wide ? "log" : "linear", inset: 14 }, y: share,
      color: { legend: true, range: COLORS, domain: chart.lines.map(([label]) => label) },
      symbol: { legend: false, domain: chart.lines.map(([label]) => label) },
      marks: [
        chance === null ? null : Plot.ruleY([chance], { strokeDasharray: "4 4", strokeOpacity: 0.7 }),
        Plot.ruleX(rows, { x: "x", y1: "low", y2: "high", stroke: "label", strokeOpacity: 0.5 }),
        Plot.line(rows, { x: "x", y: "value", stroke: "label", strokeWidth: 2 }),
        Plot.dot(rows, {
          x: "x", y: "value", fill: "label", symbol: "label", r: 4, tip: tips,
          title: (row) => `${row.label}, ${factor} ${row.x}: ${percent(row.value)} % [${percent(row.low)}, ${percent(row.high)}]`,
        }),
      ].filter(Boolean),
    }, told);
  }));
}

/** Accuracy over two swept settings, a map for each contestant and task. */
function drawGrids() {
  fill("grids", ...data.grids.map((grid) => {
    const { x, y, task, contestant } = grid;
    const cells = grid.cells.map(([left, top, value, n]) => ({ x: String(left), y: String(top), value, n }));
    const told = cells.map((cell) => `${x} ${cell.x}, ${y} ${cell.y}: ${percent(cell.value)}`);
    const range = (name) => [...new Set(cells.map((cell) => cell[name]))];
    return figure(`${contestant} on ${task}: accuracy % over ${x} and ${y}`, {
      width: 380, height: 90 + 44 * range("y").length, marginLeft: marginFor(range("y")) + 20, marginBottom: 40, padding: 0.04,
      x: { label: x, domain: range("x") }, y: { label: y, domain: range("y") },
      color: { scheme: "YlGnBu", domain: [0, 1] },
      marks: [
        Plot.cell(cells, { x: "x", y: "y", fill: "value", tip: tips, title: (c) => `${percent(c.value)} %, n = ${c.n}` }),
        Plot.text(cells, { x: "x", y: "y", text: (c) => percent(c.value), fill: (c) => (c.value > 0.55 ? "white" : "black") }),
      ],
    }, told);
  }));
}

const PRICES = [["cost", "list price per answer"], ["tokens", "tokens per answer"], ["seconds", "seconds per answer"]];

/** Accuracy against what an answer takes, a chart for each kind of price that differs between contestants. */
function drawCosts() {
  const rows = data.contestants.map((label, who) => {
    const arm = arms.get(`${who},${ALL}`) || { sums: {} };
    const tokens = (arm.sums.tokens_in || 0) + (arm.sums.tokens_out || 0);
    return { label, ...arm, cost: arm.sums.cost || 0, tokens, seconds: arm.sums.seconds || 0 };
  }).filter((row) => typeof row.value === "number");
  fill("costs", ...PRICES.map(([name, title]) => {
    const known = rows.filter((row) => row[name] > 0), xs = known.map((row) => row[name]);
    if (new Set(xs).size < 2) return null;
    const told = known.map((row) => `${row.label}: ${percent(row.value)} % at ${row[name]}`);
    return figure(`Accuracy against ${title}`, {
      width: 560, height: 320, marginRight: 40, marginTop: 30,
      x: { label: title, type: Math.max(...xs) / Math.min(...xs) >= 30 ? "log" : "linear", grid: true, nice: true },
      y: { label: "accuracy %", grid: true, transform: (share) => 100 * share },
      marks: [
        Plot.ruleX(known, { x: name, y1: "low", y2: "high", strokeOpacity: 0.35 }),
        Plot.dot(known, { x: name, y: "value", r: 4.5, fill: "var(--k0)", title: (row, i) => told[i], tip: tips }),
        known.length > 12 ? null : Plot.text(known, { x: name, y: "value", text: "label", dy: -11 }),
      ].filter(Boolean),
    }, told);
  }));
}
