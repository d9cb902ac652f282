"use strict";
// What the theme leaves to be reached by keys and read aloud, and the filter of the gallery.

/** Headings of the navigation have a level, side bars names, and code that scrolls takes keys. */
function makeReachable() {
  for (const caption of document.querySelectorAll("[role=heading]:not([aria-level])")) caption.setAttribute("aria-level", "2");
  for (const [place, name] of [[".sidebar-drawer", "all pages"], [".toc-drawer", "on this page"]]) {
    document.querySelector(place)?.setAttribute("aria-label", name);
  }
  for (const code of document.querySelectorAll("pre, .table-wrapper")) code.tabIndex = 0;
}

/** Show the cards of the gallery that hold every word of the filter. */
function filterCards() {
  const input = document.getElementById("filter");
  if (!input) return;
  const cards = [...document.querySelectorAll(".sd-row > .sd-col")];
  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = cards.filter((card) => words.every((word) => card.textContent.toLowerCase().includes(word)));
    for (const card of cards) card.hidden = !kept.includes(card);
    document.getElementById("filtered").textContent = `${kept.length} of ${cards.length}`;
  };
  input.addEventListener("input", show);
  show();
}

document.addEventListener("DOMContentLoaded", () => {
  makeReachable();
  filterCards();
});
