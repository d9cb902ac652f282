"use strict";
// The browser of samples: filters, the list of matching samples, and one sample with its pictures and conversations.
// Pictures side by side are in page_pictures.js.

const STEP = 150; // samples of the list that are shown at once
let shownCount = STEP;
let openSample = null; // the sample in the panel, so that a filter does not draw it again

function setUpFilters() {
  const options = (id, first, names) => {
    const kept = [...(first === null ? [] : [make("option", { value: "" }, first)]), ...names.map((n) => make("option", { value: n }, n))];
    document.getElementById(id).replaceChildren(...kept);
  };
  options("base", severalBaselines ? "the baseline of each run" : null, data.contestants.filter((_, who) => arms.has(`${who},${ALL}`)));
  options("task", "all tasks", data.tasks);
  options("who", "any", data.contestants);
  fill("legend", ...legend());
  for (const name of ["base", "task", "who", "flip", "verdict", "order"]) {
    document.getElementById(name).addEventListener("change", (event) => changeFilter({ [name]: event.target.value }));
  }
  document.getElementById("disagree").addEventListener("change", (event) => changeFilter({ disagree: event.target.checked ? "1" : "" }));
  document.getElementById("sheet").addEventListener("change", (event) => go({ sheet: event.target.checked ? "1" : "" }));
  document.getElementById("q").addEventListener("input", (event) => changeFilter({ q: event.target.value }, true));
  document.getElementById("clear").addEventListener("click", () => go({ ...EMPTY, base: state.base, theme: state.theme }));
}

function changeFilter(changes, quiet = false) {
  shownCount = STEP;
  go(changes, quiet);
}

function showFilters() {
  for (const name of ["task", "who", "flip", "verdict", "order"]) document.getElementById(name).value = state[name];
  document.getElementById("base").value = chosen.base === null ? "" : data.contestants[chosen.base];
  document.getElementById("sheet").checked = Boolean(state.sheet);
  document.getElementById("disagree").checked = Boolean(state.disagree);
  const search = document.getElementById("q");
  if (search.value !== state.q) search.value = state.q;
}

async function showSamples() {
  showFilters();
  const found = await filterSamples();
  document.getElementById("browser").hidden = Boolean(state.sheet);
  document.getElementById("contacts").hidden = !state.sheet;
  fill("count", `${found.length} of ${samples.length} samples`);
  if (state.sheet) return drawSheet(found);
  drawList(found);
  return drawSample(found);
}

/** The sample that the address names, if it matches the filters, or else the first in the list with all its pictures. */
function opened(found) {
  if (found.includes(chosen.sample)) return chosen.sample;
  return found.slice(0, STEP).find((number) => !lacksPictures(number)) ?? found[0];
}

/** Draw the list: every sample is a link, with the verdicts of all contestants in order. */
function drawList(found) {
  const open = opened(found), place = found.indexOf(open);
  shownCount = Math.max(shownCount, place + 1);
  const items = found.slice(0, shownCount).map((number) => {
    const dot = lacksPictures(number) ? leftOut() : null;
    const isOpen = number === open;
    const link = make("a", { href: linkTo({ sample: names[number] }), "aria-current": isOpen ? "true" : null, tabindex: isOpen ? null : "-1" },
      make("span", {}, breakable(samples[number].id), dot && " ", dot), make("span", { class: "strip", "aria-hidden": "true" }, verdictStrip(number)));
    return make("li", {}, link);
  });
  if (found.length > shownCount) {
    const more = make("button", { type: "button" }, `show ${Math.min(STEP, found.length - shownCount)} more`);
    more.addEventListener("click", () => { shownCount += STEP; drawList(found); });
    items.push(make("li", {}, more));
  }
  fill("list", ...items);
  showInList(document.querySelector("#list [aria-current]"));
}

/** The verdicts of all contestants in order, or, if there are very many, the number of right answers. */
function verdictStrip(number) {
  const verdicts = data.contestants.map((_, who) => verdictOf(who, number));
  if (verdicts.length <= 24) return verdicts.map((verdict) => SIGNS[verdict]).join("");
  return `${verdicts.filter((verdict) => verdict === "r").length} of ${verdicts.filter((verdict) => verdict !== "-").length} right`;
}

/** The legend: the meaning of the signs, and the contestants from left to right; the keys 1 to 9 select the first nine. */
function legend() {
  const signs = [...Object.entries(VERDICTS), ["-", "not asked"]].map(([verdict, word]) => `${SIGNS[verdict]} ${word}`).join(", ");
  const whose = data.contestants.length > 24 ? [] : data.contestants.map((label) => make("li", {}, label));
  return [make("p", {}, signs), make("ol", {}, ...whose)];
}

/** Scroll the list, but not the page, to one of its links. */
function showInList(link) {
  if (!link) return;
  const list = document.querySelector(".browser nav"), box = list.getBoundingClientRect(), { top, bottom } = link.getBoundingClientRect();
  if (top < box.top) list.scrollTop -= box.top - top;
  else if (bottom > box.bottom) list.scrollTop += bottom - box.bottom;
}

/** Open the sample before or after the open one, among those that match the filters. */
async function step(by) {
  const found = await filterSamples(), place = found.indexOf(opened(found));
  const next = place < 0 ? 0 : Math.min(found.length - 1, Math.max(0, place + by));
  if (found.length) go({ sample: names[found[next]] }, true);
}

/** Open the next or previous sample that the chosen contestant flips, or any contestant if none is chosen. */
async function stepFlip(by) {
  const found = await filterSamples(), place = found.indexOf(opened(found));
  const whose = chosen.who === null ? [...data.contestants.keys()] : [chosen.who];
  const ahead = by > 0 ? found.slice(place + 1) : found.slice(0, Math.max(0, place)).reverse();
  const next = ahead.find((number) => whose.some((who) => flipOf(who, rivalOf(who), number)));
  if (next !== undefined) go({ sample: names[next] }, true);
}

/** Leave the contact sheet for the open sample, and move the focus to its title. */
async function openSampleAlone() {
  if (state.sheet) {
    history.pushState(null, "", linkTo({ sheet: "" }));
    readAddress();
    await show();
  }
  document.querySelector("#sample h3")?.focus({ preventScroll: true });
  document.getElementById("samples").scrollIntoView();
}

/** Draw the panel of the open sample. */
async function drawSample(found) {
  const number = opened(found);
  const key = JSON.stringify([number, state.who, state.base]);
  if (openSample === key) return;
  openSample = key;
  if (number === undefined) return fill("sample", make("p", { class: "soft" }, "No sample matches these filters."));
  const known = await textsOf(number);
  if (openSample !== key) return; // another one was opened in the meantime
  const sample = samples[number], task = data.tasks[sample.task];
  const choices = sample.choices.map((text, i) => {
    const letter = String.fromCharCode(65 + i);
    return make("li", { class: letter === sample.key ? "key" : null }, `(${letter}) ${text}`);
  });
  const link = make("a", { href: linkTo({ sample: names[number] }) }, breakable(`${task} / ${sample.id}`));
  const compare = make("button", { type: "button", id: "compare" }, "compare at natural size (b)");
  compare.addEventListener("click", () => compareOpen());
  fill("sample", make("h3", { tabindex: "-1" }, link), compare, make("p", { class: "question" }, sample.question),
    choices.length ? make("ul", { class: "choices" }, ...choices) : null,
    make("p", { class: "soft" }, "correct answer: ", make("b", {}, sample.key === null ? "hidden" : sample.key)),
    data.served ? make("p", {}, make("a", { href: `stages?n=${number}`, target: "_blank" }, "the views after every stage")) : null,
    strip(known.pictures, known), make("div", { class: "cards" }, ...cardsOf(number, known)));
}

const fetched = new Map(); // the promise of the texts of each sample

/** The texts and pictures of a sample, from the page or from its server. */
async function textsOf(number) {
  if (!data.served) return { words: new Map(words.get(number) || []), pictures: samples[number].pictures, texts: data.texts };
  if (!fetched.has(number)) fetched.set(number, fetchTexts(number));
  return fetched.get(number);
}

async function fetchTexts(number) {
  const served = await (await fetch(`sample?n=${number}`)).json();
  return { ...served, words: new Map(served.words) };
}

/** The answers to a sample: the chosen contestant and its rival first, then the others. */
function cardsOf(number, known) {
  const first = [chosen.who, chosen.who === null ? chosen.base : rivalOf(chosen.who)].filter((who) => who !== null);
  const order = [...new Set([...first, ...data.contestants.keys()])].filter((who) => answers[who][number]);
  return order.map((who) => {
    const draws = answers[who][number], flip = flipOf(who, rivalOf(who), number);
    const change = flip ? make("span", { class: "note" }, flip > 0 ? " ▲ gained" : " ▼ lost") : null;
    const role = who === rivalOf(who) ? make("span", { class: "note" }, ` (${who === data.baselines[who] ? "baseline" : "compared with"})`) : null;
    const studio = data.served ? make("a", { class: "note studio", href: `studio/?n=${number}&who=${who}`, target: "_blank" }, " open in the studio") : null;
    const card = make("article", { class: "card" }, make("h4", {}, breakable(data.contestants[who]), change, role, studio));
    draws.forEach((draw, i) => card.append(...drawAnswer(draw, (known.words.get(who) || [])[i], known, draws.length > 1 ? i + 1 : 0)));
    return card;
  });
}

/** Draw one answer: its verdict, the pictures that were sent, the reply, and the conversation, folded. */
function drawAnswer(draw, texts, known, count) {
  const verdict = VERDICTS[draw.verdict];
  const head = make("p", {}, make("span", { class: `v ${verdict}` }, `${SIGNS[draw.verdict]} ${verdict}`),
    draw.value > 0 && draw.value < 1 ? ` ${draw.value}` : "", draw.answer ? make("b", {}, draw.answer) : "",
    count ? make("span", { class: "note" }, ` draw ${count}`) : "");
  const reason = draw.reason.replace(/^(.+): (?=\1(:|$))/, ""); // without the repetition in "unread: unread: ..."
  const made = [head, reason ? make("p", { class: "note pre" }, reason) : null];
  if (!texts) {
    made.push(data.is_whole ? null : leftOut());
    return made.filter(Boolean);
  }
  const { reply, turns, places } = texts;
  const sent = turns.flatMap(({ role, parts }, i) => parts.filter(isPicture)
    .map(({ name, caption }) => ({ name, caption: caption || `${role}, turn ${i + 1}`, marks: [] })));
  if (places.length) made.push(strip(places, known), drawnAnswersLegend(places));
  made.push(filmStrip(turns, draw, known) || strip(sent, known));
  if (known.texts[reply]) made.push(make("pre", { class: "reply", tabindex: "0", "aria-label": "reply" }, known.texts[reply]));
  const resources = [[texts.seconds, "s"], [texts.tokens_in, "tokens in"], [texts.tokens_out, "tokens out"], [texts.cost, "list price"]]
    .filter(([value]) => value !== null).map(([value, unit]) => `${unit === "s" ? Number(value.toPrecision(3)) : value} ${unit}`);
  const server = known.texts[texts.served_by], isFolded = server && turns.length; // nearly all answers have the same server
  made.push(make("p", { class: "note" }, [...resources, isFolded ? "" : server].filter(Boolean).join(" · ")));
  if (turns.length) made.push(make("details", {}, make("summary", {}, "full conversation"), isFolded ? make("p", { class: "note" }, server) : null, ...turns.flatMap((turn) => drawTurn(turn, known))));
  return made.filter(Boolean);
}

/** Return whether a part of a turn is a picture rather than the number of a text. */
function isPicture(part) {
  return typeof part === "object";
}

function drawTurn({ role, parts }, known) {
  const shown = parts.map((part) => (isPicture(part) ? strip([part], known) : make("pre", { tabindex: "0" }, known.texts[part])));
  return [make("p", { class: "note" }, role), ...shown];
}
