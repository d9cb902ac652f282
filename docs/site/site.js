"use strict";
// Shows the cards of the gallery that hold every word of the filter.

document.addEventListener("DOMContentLoaded", () => {
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
});
