"use strict";
// The findings, the matrix of contestants and tasks, and the charts, drawn by Observable Plot.

const COLORS = [0, 1, 2, 3, 4, 5, 6, 7].map((number) => `var(--k${number})`);
const percent = (share) => (share === null || share === undefined ? "" : (100 * share).toFixed(1));
const signed = (share) => `${share >= 0 ? "+" : "−"}${Math.abs(100 * share).toFixed(1)}`;
const shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** Create an element with attributes, texts and children; texts are never parsed as HTML. */
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

// ---- rows of contestants

/** Draw the findings: the first table next to its flips, those of other tasks below. */
function drawFinding() {
  const tables = data.finding.map((part) => changesTable(part.title, part.task, part.baseline, part.chance,
    part.changes.map(({ contestant, difference, ...change }) => ({ ...change, who: contestant, pair: difference })), part.is_one_change ? "change" : "contestant"));
  fill("found", tables[0]);
  fill("found-more", ...tables.slice(1));
}

/** Draw every contestant of a task with its interval, if a rival was chosen or the page has no findings. */
function drawRivals() {
  if (data.finding.length && !state.base) return fill("rivals");
  const rival = rivalOf(0), first = data.tasks.findIndex((_, number) => arms.has(`${rival},${number}`));
  const task = chosen.task !== ALL || data.tasks.length === 1 || !hasAllTasks(rival) ? Math.max(chosen.task, first) : ALL, rows = [];
  for (const [who, label] of data.contestants.entries()) {
    const arm = arms.get(`${who},${task}`), pair = who === rivalOf(who) ? null : pairOf(who, rivalOf(who), task);
    if (arm && arm.value !== null && (task !== ALL || hasAllTasks(who)) && (pair || who === rivalOf(who))) rows.push({ label, who, accuracy: arm, pair, is_significant: pair !== null && pair.is_significant });
  }
  rows.sort((one, two) => two.accuracy.value - one.accuracy.value);
  return fill("rivals", rows.length > 1 ? changesTable(task === ALL ? "all samples" : data.tasks[task], task, chosen.base, null, rows, "contestant") : null);
}

/** A row for each change: its accuracy with interval as a bar, the difference in points, and links to the flips. */
function changesTable(title, task, base, chance, rows, kind) {
  const name = base === null ? "" : rows.find((row) => row.who === base)?.label || data.contestants[base];
  const isCompared = rows.some((row) => row.pair), against = isCompared ? `; * significantly different from ${name || "the baseline"} (5 %, corrected)` : "";
  const caption = make("figcaption", {}, make("b", {}, breakable(title)), breakable(`: % right with 95 % interval${against}`),
    chance === null ? "" : `; dashed: chance, ${(100 * chance).toFixed(0)} %`);
  const head = [kind, "", "right", ...(isCompared ? ["points", "flips"] : [])].map((name, i) => make("th", { scope: "col", class: i > 1 ? "n" : null }, name));
  const scale = [0, 50, 100].map((tick) => placed(make("span", {}, String(tick)), { left: tick / 100 }));
  head[1].append(make("span", { class: "unseen" }, "interval"), make("div", { class: "scale", "aria-hidden": "true" }, ...scale));
  const table = make("table", { class: "changes" }, make("thead", {}, make("tr", {}, ...head)),
    make("tbody", {}, ...rows.map((row) => changeRow(row, task, base, chance, isCompared))));
  return make("figure", { class: "chart" }, caption, table);
}

function changeRow({ label, who, accuracy, pair, is_significant: isSignificant, failure, answered, abstained }, task, base, chance, isCompared) {
  const rival = base === null ? data.baselines[who] : base;
  const name = make("th", { scope: "row" }, make("a", { href: linkTo({ ...ANYTHING, who: data.contestants[who] }), "data-open": "samples" }, breakable(label)));
  const row = make("tr", { class: who === rival ? "base" : isSignificant ? (pair.value > 0 ? "better" : "worse") : null }, name);
  if (!accuracy) {
    row.append(make("td", { colspan: isCompared ? "4" : "2", class: "soft" }, failure ? `every answer failed: ${failure}` : "no score"));
    return row;
  }
  row.title = `${label}: ${percent(accuracy.value)} % [${percent(accuracy.low)}, ${percent(accuracy.high)}], n = ${accuracy.n}`
    + (pair ? `\n${describePair(pair)}` : "");
  const bar = make("div", { class: "bar", "aria-hidden": "true" }, chance === null ? null : placed(make("i", { class: "chance" }), { left: chance }),
    placed(make("i", { class: "range" }), { left: accuracy.low, width: accuracy.high - accuracy.low }), placed(make("i", { class: "value" }), { left: accuracy.value }));
  row.append(make("td", {}, bar), make("td", { class: "n" }, make("b", {}, percent(accuracy.value)), failedNote(who, task), answeredNote(answered, abstained)));
  if (!isCompared) return row;
  const flips = make("td", { class: "n flips" });
  if (pair) flips.append(...flipLinks(who, rival, task, pair));
  row.append(make("td", { class: "n points" }, pair ? `${signed(pair.value)}${isSignificant ? "*" : ""}` : who === base ? "baseline" : ""), flips);
  return row;
}

/** The number of failed answers of a contestant on a task; null if there are none. */
function failedNote(who, task) {
  const asked = answers[who].flatMap((draws, number) => (task === ALL || samples[number].task === task ? draws : []));
  const count = asked.filter((draw) => draw.verdict === "f").length;
  return count ? make("small", { class: "soft" }, ` ${count} failed`) : null;
}

/** The accuracy of a contestant without its abstentions; null if it never abstained. */
function answeredNote(answered, abstained) {
  if (!answered) return null;
  const interval = `${percent(answered.value)} % [${percent(answered.low)}, ${percent(answered.high)}] of ${answered.n} answered; abstained on ${percent(abstained)} %`;
  return make("small", { class: "soft", title: interval }, `${(100 * (1 - abstained)).toFixed(0)} % answered: ${(100 * answered.value).toFixed(0)} %`);
}

/** Place an element at fractions of its frame's width. */
function placed(element, shares) {
  for (const [side, share] of Object.entries(shares)) element.style[side] = `${100 * share}%`;
  return element;
}

// ---- the matrix

/** Draw contestants by tasks: accuracy, the difference from the chosen rival, and links to the samples that flipped. */
function drawMatrix() {
  const whole = data.contestants.filter((_, who) => hasAllTasks(who)).length > 1;
  const tasks = data.tasks.length > 1 && whole ? [ALL, ...data.tasks.keys()] : [...data.tasks.keys()];
  const head = tasks.map((task) => make("th", { scope: "col" }, task === ALL ? "all samples" : breakable(data.tasks[task])));
  const rows = data.contestants.map((label, who) => {
    const name = make("th", { scope: "row" }, make("a", { href: linkTo({ ...ANYTHING, who: label }), "data-open": "samples" }, breakable(label)));
    const row = make("tr", { class: who === rivalOf(who) ? "base" : null }, name);
    row.append(...tasks.map((task) => matrixCell(who, task)));
    return row;
  });
  const table = make("table", { class: "matrix" }, make("thead", {}, make("tr", {}, make("th", {}, "contestant"), ...head)));
  table.append(make("tbody", {}, ...rows));
  fill("matrix", table);
}

function hasAllTasks(who) {
  return data.tasks.every((_, task) => arms.has(`${who},${task}`));
}

/** A name that may be wrapped after an underscore. */
function breakable(name) {
  const made = make("span");
  name.split(/(?<=_)/).forEach((part, i) => made.append(i ? make("wbr") : "", part));
  return made;
}

function matrixCell(who, task) {
  const arm = arms.get(`${who},${task}`), rival = rivalOf(who);
  if (!arm || arm.value === null || (task === ALL && !hasAllTasks(who))) return make("td", { class: "n soft" }, "–");
  const cell = make("td", { class: "n" }, make("b", {}, percent(arm.value)), failedNote(who, task));
  const pair = who === rival || (task === ALL && !hasAllTasks(rival)) ? null : pairOf(who, rival, task);
  const clusters = arm.clusters < arm.n ? ` in ${arm.clusters} clusters` : "";
  cell.title = `${percent(arm.low)} to ${percent(arm.high)} (95 %), n = ${arm.n}${clusters}`;
  if (!pair) return cell;
  cell.style.setProperty("--shade", `${Math.min(60, Math.abs(pair.value) * 200).toFixed(0)}%`);
  cell.classList.add(pair.value >= 0 ? "up" : "down");
  cell.title += `\n${describePair(pair)}`;
  cell.append(make("small", {}, `${signed(pair.value)}${pair.is_significant ? "*" : ""} `, ...flipLinks(who, rival, task, pair)));
  return cell;
}

const ANYTHING = { task: "", flip: "", verdict: "", disagree: "", q: "", sample: "", columns: "" };

/** Links to the samples that a contestant gains and loses compared with its rival; each opens the first of them. */
function flipLinks(who, rival, task, pair) {
  return [["gained", "▲", pair.better], ["lost", "▼", pair.worse]].flatMap(([flip, sign, count]) => {
    if (!count) return [make("span", { class: "soft flip" }, `${sign}0`), " "];
    const label = data.contestants[who], where = task === ALL ? "" : data.tasks[task];
    const description = `${count} samples ${flip} by ${label}${where ? ` on ${where}` : ""}`;
    const base = rival === data.baselines[who] ? "" : data.contestants[rival];
    const filters = { ...ANYTHING, who: label, base, task: where, flip };
    return [make("a", { href: linkTo(filters), class: "flip", "aria-label": description, "data-open": "samples" }, `${sign}${count}`), " "];
  });
}

function describePair(pair) {
  const p = pair.p === null ? "no test in this file" : `${pair.test} ${pair.p < 0.0001 ? "p < 0.0001" : `p = ${pair.p.toFixed(4)}`}`;
  const holm = typeof pair.p_holm === "number" ? `, ${pair.p_holm.toFixed(4)} after Holm's correction`
    : typeof pair.p_bonferroni === "number" ? `, ${pair.p_bonferroni.toFixed(4)} after Bonferroni's correction` : "";
  const interval = pair.low === null ? " (its interval is not in this file)" : ` [${signed(pair.low)}, ${signed(pair.high)}]`;
  const out = typeof pair.out === "number" ? ` (${pair.out} left out)` : "";
  return `${signed(pair.value)} points${interval}, n = ${pair.n}${out}, ${pair.better} gained, ${pair.worse} lost, ${p}${holm}`;
}

// ---- charts

const tips = { fill: "var(--card)" };
const LETTER = 7; // pixels, roughly

/** The width of a chart in pixels. */
function roomFor(most) {
  return Math.max(240, Math.min(most, document.getElementById("charts").clientWidth - 24));
}

/** Format a number of an axis without floating-point noise. */
const plain = (number) => String(Number(number.toPrecision(4)));

/** The ticks of a logarithmic axis: its powers of ten, and its ends if it has fewer than two. */
function logTicks(low, high) {
  const powers = [];
  for (let k = Math.ceil(Math.log10(low) - 1e-9); k <= Math.log10(high) + 1e-9; k += 1) powers.push(Number(`1e${k}`));
  return powers.length > 1 ? powers : [low, ...powers, high];
}

/** Draw a chart under its title, with its numbers as `texts` for screen readers. */
function figure(title, options, texts) {
  const drawn = Plot.plot({ style: { background: "transparent", fontSize: "12px" }, ...options });
  const svg = drawn.tagName === "figure" ? drawn.querySelector(":scope > svg") : drawn;
  drawn.querySelectorAll("g[aria-label]").forEach((part) => part.removeAttribute("aria-label")); // the chart has one
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${title}. ${texts.slice(0, 40).join("; ")}`);
  const made = make("figure", { class: "chart" }, make("figcaption", {}, title), drawn);
  made.style.width = `${options.width + 24}px`;
  return made;
}

/** Remove each text of the charts that would overlap an earlier one. */
function declutter(id) {
  for (const svg of document.getElementById(id).querySelectorAll("svg")) {
    const kept = [];
    for (const text of svg.querySelectorAll("text")) {
      const box = text.getBoundingClientRect();
      const hits = kept.some((b) => b.left < box.right && box.left < b.right && b.top < box.bottom && box.top < b.bottom);
      if (hits) text.remove();
      else kept.push(box);
    }
  }
}

function drawCharts() {
  const draws = [["lines", lineCharts(data.lines.filter((chart) => !chart.is_chosen))], ["grids", gridCharts()], ["costs", costChart()], ["people", peopleChart()]];
  if (document.getElementById("selected").open) draws.push(["chosen", lineCharts(data.lines.filter((chart) => chart.is_chosen))]);
  for (const [id, charts] of draws) {
    fill(id, ...charts);
    declutter(id);
  }
  document.getElementById("selected").hidden = !data.lines.some((chart) => chart.is_chosen);
  document.getElementById("charts").hidden = !data.lines.length && !data.grids.length && !draws[2][1].length && !draws[3][1].length;
}

/** Split charts so that each has at most as many lines as there are colours, and number the parts. */
function facets(charts) {
  return charts.flatMap((chart) => {
    const count = Math.ceil(chart.lines.length / COLORS.length), xs = chart.lines.flatMap(([, points]) => points.map(([x]) => x));
    return Array.from({ length: count }, (_, i) => ({ ...chart, ends: [Math.min(...xs), Math.max(...xs)],
      part: count > 1 ? ` (${i + 1} of ${count})` : "", lines: chart.lines.slice(i * COLORS.length, (i + 1) * COLORS.length) }));
  });
}

/** Draw accuracy along a number, a chart for each number and task; lines are three pixels apart. */
function lineCharts(charts) {
  const width = roomFor(760);
  return facets(charts).map(({ factor, task, of, chance, lines, ends, part }) => {
    const rows = lines.flatMap(([label, points]) => points.map(([x, value, low, high]) => ({ label, x, value, low, high })));
    const xs = [...new Set(rows.map((row) => row.x))].sort((a, b) => a - b), wide = ends[0] > 0 && ends[1] / ends[0] >= 30;
    const texts = rows.map((row) => `${row.label} at ${row.x}: ${percent(row.value)}`);
    const legend = chance === null ? "" : "; dashed: chance";
    const marks = chance === null ? [] : [Plot.ruleY([chance], { strokeDasharray: "4 4", strokeOpacity: 0.7 })];
    lines.forEach(([label], i) => {
      const mine = rows.filter((row) => row.label === label), dx = 3 * (i - (lines.length - 1) / 2);
      marks.push(
        Plot.ruleX(mine, { x: "x", y1: "low", y2: "high", stroke: "label", strokeWidth: 1.5, strokeOpacity: 0.7, dx }),
        Plot.line(mine, { x: "x", y: "value", stroke: "label", strokeWidth: 2, dx }),
        Plot.dot(mine, {
          x: "x", y: "value", fill: "label", symbol: "label", r: 4, dx, tip: tips,
          title: (row) => `${row.label}, ${factor} ${row.x}: ${percent(row.value)} % [${percent(row.low)}, ${percent(row.high)}]`,
        }),
      );
    });
    const domain = lines.map(([label]) => label);
    return figure(`${task}: ${of} % against ${factor}${part}, with 95 % intervals${legend}`, {
      width, height: 320, marginBottom: 44, marginRight: 30,
      x: { label: factor, domain: ends, type: wide ? "log" : "linear", inset: 14, labelAnchor: "center", labelArrow: "none", labelOffset: 40,
        ticks: xs.length <= 12 ? xs : wide ? logTicks(...ends) : undefined, tickFormat: plain },
      y: { label: null, grid: true, transform: (value) => 100 * value, domain: [0, 100] },
      color: { range: COLORS, domain }, symbol: { legend: true, domain }, marks,
    }, texts);
  });
}

/** Draw accuracy over two swept settings, a map for each contestant and task, in the order of the study. */
function gridCharts() {
  const width = roomFor(380);
  return data.grids.map(({ x, y, task, contestant, cells: given, over, baseline }) => {
    const cells = given.map(([left, top, value, n]) => ({ x: String(left), y: String(top), value, n }));
    const texts = cells.map((cell) => `${x} ${cell.x}, ${y} ${cell.y}: ${percent(cell.value)}`);
    const range = (name) => [...new Set(cells.map((cell) => cell[name]))];
    const marginLeft = Math.min(width * 0.4, 24 + LETTER * Math.max(...range("y").map((label) => label.length)));
    const letters = (room) => (label) => shortened(label, Math.max(2, Math.floor(room / LETTER)));
    const isBaseline = (cell) => baseline !== null && cell.x === String(baseline[0]) && cell.y === String(baseline[1]);
    const mean = over.length ? `, mean over ${over.join(" and ")}` : "";
    return figure(`${contestant} on ${task}: accuracy % over ${x} (across) and ${y} (down)${mean}${baseline ? "; framed: the baseline" : ""}`, {
      width, height: 70 + 44 * range("y").length, marginLeft, marginBottom: 30, padding: 0.04,
      x: { label: null, domain: range("x"), tickFormat: letters((width - marginLeft) / range("x").length - 4) },
      y: { label: null, domain: range("y"), tickFormat: letters(marginLeft - 16) },
      color: { scheme: "YlGnBu", domain: [0, 1] },
      marks: [
        Plot.cell(cells, { x: "x", y: "y", fill: "value", tip: tips, title: (c) => `${percent(c.value)} %, n = ${c.n}` }),
        Plot.cell(cells.filter(isBaseline), { x: "x", y: "y", fill: "none", stroke: "var(--k1)", strokeWidth: 3, inset: 1.5 }),
        Plot.text(cells, { x: "x", y: "y", text: (c) => percent(c.value), fill: (c) => (c.value > 0.68 ? "white" : "black") }),
      ],
    }, texts);
  });
}

const PRICES = [["cost", "list price per answer"], ["tokens", "tokens per answer"], ["seconds", "seconds per answer"]];

/** Draw the contestants and human accuracy on each task for which the latter is known. */
function peopleChart() {
  const known = [...data.tasks.keys()].filter((task) => data.people[task] !== null);
  const rows = known.flatMap((task) => data.contestants.flatMap((label, who) => {
    const arm = arms.get(`${who},${task}`);
    return arm && arm.value !== null ? [{ label, task: data.tasks[task], value: arm.value }] : [];
  }));
  if (!rows.length) return [];
  const people = known.map((task) => ({ task: data.tasks[task], value: data.people[task] }));
  const texts = [...people.map((row) => `people on ${row.task}: ${percent(row.value)} %`),
    ...rows.map((row) => `${row.label} on ${row.task}: ${percent(row.value)} %`)];
  return [figure("Accuracy % by task; the line is human accuracy", {
    width: roomFor(760), height: 70 + 34 * known.length, marginLeft: 120,
    x: { label: null, grid: true, domain: [0, 100], transform: (share) => 100 * share },
    y: { label: null, domain: known.map((task) => data.tasks[task]), tickFormat: (task) => shortened(task, 16) },
    marks: [
      Plot.tickX(people, { x: "value", y: "task", strokeWidth: 3, title: (row) => `people: ${percent(row.value)} %`, tip: tips }),
      Plot.dot(rows, { x: "value", y: "task", r: 4.5, fill: "var(--k0)", fillOpacity: 0.7, title: (row) => `${row.label}: ${percent(row.value)} %`, tip: tips }),
    ],
  }, texts)];
}

/** Draw accuracy against the first of cost, tokens and seconds in which contestants differ, with the best one at each price. */
function costChart() {
  const task = chosen.task === ALL && data.finding.length ? data.finding[0].task : chosen.task, width = roomFor(560);
  const rows = data.contestants.flatMap((label, who) => {
    const arm = arms.get(`${who},${task}`);
    if (!arm || arm.value === null) return [];
    const { cost = 0, seconds = 0, tokens_in: sent = 0, tokens_out: received = 0 } = arm.sums;
    return [{ label, value: arm.value, cost, tokens: sent + received, seconds }];
  });
  const differs = (name) => {
    const prices = rows.map((row) => row[name]).filter((price) => price > 0);
    return prices.length > 1 && Math.max(...prices) > 1.5 * Math.min(...prices);
  };
  const price = PRICES.find(([name]) => differs(name));
  if (!price) return [];
  const [name, title] = price, known = rows.filter((row) => row[name] > 0).sort((a, b) => a[name] - b[name] || b.value - a.value);
  const frontier = known.filter((row, i) => known.slice(0, i).every((cheaper) => cheaper.value < row.value));
  const texts = known.map((row) => `${row.label}: ${percent(row.value)} % at ${row[name]}`);
  const ends = [known[0][name], known.at(-1)[name]], isLog = ends[1] / ends[0] >= 30;
  const where = task === ALL ? "all samples" : data.tasks[task], isRight = (row) => 2 * row[name] > ends[0] + ends[1];
  return [figure(`Accuracy % on ${where} against ${title}; line: no cheaper contestant is better`, {
    width, height: 320, marginRight: 40, marginTop: 30, marginBottom: 44,
    x: { label: title, type: isLog ? "log" : "linear", domain: isLog ? ends : undefined, inset: isLog ? 8 : 0, grid: true, nice: !isLog, labelAnchor: "center",
      labelArrow: "none", labelOffset: 40, ticks: isLog ? logTicks(...ends) : 5, tickFormat: isLog ? plain : undefined },
    y: { label: null, grid: true, domain: [0, 100], transform: (share) => 100 * share },
    marks: [
      Plot.line(frontier, { x: name, y: "value", curve: "step-after", strokeOpacity: 0.6 }),
      Plot.dot(known, { x: name, y: "value", r: 4.5, fill: "var(--k0)", title: (row) => texts[known.indexOf(row)], tip: tips }),
      Plot.text(frontier, { x: name, y: "value", text: (row) => shortened(row.label, 24), dy: -12, textAnchor: "start", filter: (row) => !isRight(row) }),
      Plot.text(frontier, { x: name, y: "value", text: (row) => shortened(row.label, 24), dy: -12, textAnchor: "end", filter: isRight }),
    ],
  }, texts)];
}
