"use strict";
// Starts the page: draws the state in the address, listens to keys, and sorts tables.

const KEYS = {
  j: () => step(1), ArrowDown: () => step(1), k: () => step(-1), ArrowUp: () => step(-1),
  "/": () => document.getElementById("q").focus(), "?": () => document.getElementById("help").showModal(),
  d: () => go({ disagree: state.disagree ? "" : "1" }), g: () => changeFilter({ flip: nextFlip() }),
  x: () => document.getElementById("clear").click(), b: () => compareOpen(),
  "[": () => stepFlip(-1), "]": () => stepFlip(1), Enter: () => openSampleAlone(), c: () => go({ sheet: state.sheet ? "" : "1" }),
};
for (let number = 1; number <= 9; number += 1) KEYS[number] = () => choose(number - 1);
const FLIPS = ["", "any", "gained", "lost"];
const THEMES = ["", "light", "dark"];
const SAMPLE_FILTERS = ["who", "flip", "verdict", "disagree", "q", "sample", "sheet"]; // if the address has one of these, the page opens at the samples
let drawn = {}; // the state for which the rows of rivals and the charts were drawn

/** Select a contestant, or deselect it if it is selected already. */
function choose(who) {
  const label = data.contestants[who];
  if (label !== undefined) changeFilter({ who: state.who === label ? "" : label });
}

function nextFlip() {
  return FLIPS[(FLIPS.indexOf(state.flip) + 1) % FLIPS.length];
}

/** Draw the parts of the page that the state has changed. */
async function show() {
  document.documentElement.dataset.theme = state.theme;
  const { base } = state, { task } = chosen, isNew = drawn.base !== base || drawn.task !== task;
  drawMatrix(); // its links hold the other filters
  drawFinding();
  if (isNew) drawRivals();
  if (isNew && drawn.width) drawCharts();
  drawn = { ...drawn, base, task };
  return showSamples();
}

function onKey(event) {
  if (event.key === "b" && document.getElementById("large").open) return blink();
  const typing = event.target.closest("input:not([type=checkbox]), select, textarea, dialog");
  if (event.key === "Escape" && typing) return event.target.blur();
  if (event.key === "Enter" && event.target.closest("a, button, summary")) return undefined; // Enter clicks it
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return undefined;
  const { top, bottom } = document.getElementById("samples").getBoundingClientRect();
  if (event.key.startsWith("Arrow") && (top >= window.innerHeight || bottom <= 0)) return undefined; // the page scrolls
  event.preventDefault();
  return KEYS[event.key]();
}

/** Follow links to parts of the page without changing the address, which holds the filters. */
function onClick(event) {
  const part = event.target.closest("[data-part]");
  if (part) event.preventDefault();
  const place = part ? part.hash.slice(1) : event.target.closest("[data-open]") && "samples";
  if (!place) return;
  document.getElementById("large").close();
  document.getElementById(place).scrollIntoView();
}

/** Sort the rows of a table by a click on a column's title, as numbers if all cells begin with one. */
function makeSortable(table) {
  table.querySelectorAll("thead th").forEach((title, column) => {
    const button = make("button", { type: "button", class: "sort" }, ...title.childNodes);
    title.replaceChildren(button);
    button.addEventListener("click", () => {
      const body = table.tBodies[0], rows = [...body.rows], sign = title.ariaSort === "descending" ? 1 : -1;
      const cell = (row) => row.cells[column]?.innerText.trim() || "";
      const number = (row) => parseFloat(cell(row).replace("−", "-").replace(/^[<$]\s*/, "").replaceAll(",", ""));
      const isNumeric = rows.every((row) => !cell(row) || cell(row) === "-" || !Number.isNaN(number(row)));
      const order = isNumeric ? (a, b) => (Number.isNaN(number(a)) ? -Infinity : number(a)) - (Number.isNaN(number(b)) ? -Infinity : number(b))
        : (a, b) => -cell(a).localeCompare(cell(b), undefined, { numeric: true });
      table.querySelectorAll("th[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
      title.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
      body.replaceChildren(...rows.sort((a, b) => sign * order(a, b)));
    });
  });
}

/** Keep the list of samples below the filters, and charts as wide as the page. */
function watchSizes() {
  const root = document.documentElement, bar = document.getElementById("filters"), main = document.querySelector("main");
  new ResizeObserver(() => root.style.setProperty("--bar", `${bar.offsetHeight}px`)).observe(bar);
  new ResizeObserver(() => {
    if (drawn.width !== main.clientWidth) drawCharts();
    drawn.width = main.clientWidth;
  }).observe(main);
}

/** Draw the first screen; once the whole file is read, draw the rest, which needs the pictures. */
async function start() {
  readAddress();
  setUpFilters();
  const isRead = new Promise((done) => document.addEventListener("DOMContentLoaded", done));
  drawMatrix();
  drawFinding();
  await drawEvidence();
  document.documentElement.dataset.found = "1";
  await isRead;
  Object.assign(data.thumbnails, JSON.parse(document.getElementById("pictures").textContent));
  openSample = null;
  window.addEventListener("hashchange", () => { readAddress(); show(); });
  document.addEventListener("keydown", onKey);
  document.addEventListener("click", onClick);
  document.getElementById("theme").addEventListener("click", () =>
    go({ theme: THEMES[(THEMES.indexOf(state.theme) + 1) % THEMES.length] }, true));
  document.getElementById("keys").addEventListener("click", KEYS["?"]);
  document.getElementById("blink").addEventListener("click", blink);
  document.getElementById("selected").addEventListener("toggle", drawCharts);
  document.querySelectorAll("#tables table").forEach(makeSortable);
  fill("lacking", describeMissing());
  drawCharts();
  drawn.width = document.querySelector("main").clientWidth;
  await show();
  watchSizes();
  document.documentElement.dataset.ready = "1";
  if (SAMPLE_FILTERS.some((name) => state[name])) document.getElementById("samples").scrollIntoView();
}

start();
