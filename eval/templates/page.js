"use strict";
// Starts the page: draws what the address asks for, listens to keys, and opens everything for printing.

const KEYS = {
  j: () => step(1), ArrowDown: () => step(1), k: () => step(-1), ArrowUp: () => step(-1),
  "/": () => document.getElementById("q").focus(), "?": () => document.getElementById("help").showModal(),
  d: () => go({ disagree: state.disagree ? "" : "1" }), g: () => changeFilter({ flip: nextFlip() }),
  x: () => document.getElementById("clear").click(),
};
const FLIPS = ["", "any", "gained", "lost"];
const THEMES = ["", "light", "dark"];
let drawn = {}; // what the charts were drawn for

function nextFlip() {
  return FLIPS[(FLIPS.indexOf(state.flip) + 1) % FLIPS.length];
}

/** Draw what the state asks for; what it leaves alone stays. */
function show() {
  document.documentElement.dataset.theme = state.theme;
  const base = chosen.base, task = chosen.task;
  drawMatrix(); // its links hold the other filters
  if (drawn.base !== base || drawn.task !== task) drawForest();
  drawn = { base, task };
  return showSamples();
}

function onKey(event) {
  const typing = event.target.closest("input, select, textarea, dialog");
  if (event.key === "Escape" && typing) return event.target.blur();
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return undefined;
  const { top, bottom } = document.getElementById("samples").getBoundingClientRect();
  if (event.key.startsWith("Arrow") && (top >= window.innerHeight || bottom <= 0)) return undefined; // the page scrolls
  event.preventDefault();
  return KEYS[event.key]();
}

/** Links to parts of the page leave the address, which holds the filters, as it is. */
function onClick(event) {
  const part = event.target.closest("[data-part]");
  if (part) event.preventDefault();
  const place = part ? part.hash.slice(1) : event.target.closest("[data-open]") && "samples";
  if (place) document.getElementById(place).scrollIntoView();
}

async function start() {
  readAddress();
  setUpFilters();
  window.addEventListener("hashchange", () => { readAddress(); show(); });
  document.addEventListener("keydown", onKey);
  document.addEventListener("click", onClick);
  document.getElementById("theme").addEventListener("click", () =>
    go({ theme: THEMES[(THEMES.indexOf(state.theme) + 1) % THEMES.length] }, true));
  document.getElementById("keys").addEventListener("click", KEYS["?"]);
  window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
  await show();
  for (const draw of [drawLines, drawGrids, drawCosts]) draw();
  document.documentElement.dataset.ready = "1";
  const asked = ["who", "flip", "verdict", "disagree", "q", "sample"].some((name) => state[name]);
  if (asked) document.getElementById("samples").scrollIntoView();
}

start();
