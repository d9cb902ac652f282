"use strict";
// Draws pictures: those of a sample, an agent's looks as a film strip, the contact sheet of samples by contestants, and
// two pictures at natural size, between which the key `b` alternates.

const SHEET_STEP = 24, MAX_COLUMNS = 6, MAX_LETTERS = 200;
let sheetRows = SHEET_STEP;

/** The URL of a picture: in this file or at the server; undefined if it has none. */
function sourceOf(name) {
  return data.served ? `picture/${name}` : data.thumbnails[name];
}

/** Return whether this file leaves out the texts of a sample. */
function lacksTexts(number) {
  return !data.served && !data.is_whole && !words.has(number);
}

/** Return whether this file leaves out texts or pictures of a sample. */
function lacksPictures(number) {
  if (data.served || lacksTexts(number)) return !data.served;
  const sent = (words.get(number) || []).flatMap(([, draws]) => draws).flatMap(sentPictures);
  return [...samples[number].pictures, ...sent].some(({ name }) => !sourceOf(name));
}

/** Describe the texts and pictures that this file leaves out. */
function describeMissing() {
  if (data.served) return "Pictures are shown as they were sent.";
  const [texts, pictures] = [lacksTexts, lacksPictures].map((test) => samples.filter((_, number) => test(number)).length);
  const parts = [texts && `the texts of ${texts}`, pictures && `pictures of ${pictures}`].filter(Boolean).join(" and ");
  return `This file ${parts && `leaves out ${parts} of ${samples.length} samples (●) and `}holds ${parts && "the other "}pictures as thumbnails of at most 256 pixels;`
    + " looktwice view shows everything.";
}

/** The pictures that were sent in a draw, in order. */
function sentPictures({ turns }) {
  return sentTurns(turns).flat();
}

/** The pictures of each message that has any. */
function sentTurns(turns) {
  return turns.filter(({ role }) => role !== "look").map(({ parts }) => parts.filter(isPicture)).filter((of) => of.length);
}

/** The pictures behind an answer: those of the last message with any, or the sample's own if none was sent. */
function picturesOf(who, known) {
  const [draw] = known.words.get(who) || [];
  if (draw?.places.length) return draw.places;
  return (draw && sentTurns(draw.turns).at(-1)) || known.pictures;
}

/** A dot instead of a text or picture that this file leaves out. */
function leftOut() {
  return make("span", { class: "dot", role: "img", "aria-label": "not in this file", title: "not in this file" }, "●");
}

/** A frame instead of a picture that this file leaves out. */
function placeholder() {
  return make("span", { class: "absent" }, leftOut());
}

/** Pictures side by side, with their marks; a click shows one at its natural size. */
function strip(pictures, known) {
  return pictures.length ? make("div", { class: "pics" }, ...pictures.map((picture) => drawPicture(picture))) : null;
}

function drawPicture({ name, caption, marks }, below = caption) {
  const title = caption || "picture", button = make("button", { type: "button", class: "zoom", "aria-label": `${title} at its natural size` },
    drawMarked({ name, marks }, title));
  button.addEventListener("click", () => showLarge([{ title, pictures: [{ name, marks }] }]));
  return make("figure", {}, sourceOf(name) ? button : placeholder(), below ? make("figcaption", {}, below) : null);
}

/** A picture with its marks drawn over it. */
function drawMarked({ name, marks }, alt) {
  const source = sourceOf(name);
  if (!source) return placeholder();
  const image = make("img", { src: source, alt, loading: "lazy" });
  image.addEventListener("error", () => image.replaceWith(make("span", { class: "note" }, "this picture is missing")));
  return make("span", { class: "pic" }, image, ...(marks || []).map(drawMark));
}

function drawMark([kind, left, top, width, height, label]) {
  const mark = make("i", { class: kind, "aria-hidden": "true" }, label ? make("b", {}, label) : "");
  return placed(mark, kind.startsWith("box") ? { left, top, width, height } : { left, top });
}

/** An agent's looks, one per frame: the image with the requested box and the text; the last frame is the answer. */
function filmStrip(turns, draw, known) {
  const looks = turns.flatMap(({ role, parts }, i) => (role === "look" ? [{ parts, reply: turns.slice(0, i).findLast((turn) => turn.role === "reply") }] : []));
  if (!looks.some(({ parts }) => parts.some(isPicture))) return null;
  const join = (parts) => parts.filter((part) => !isPicture(part)).map((part) => known.texts[part]).join(" ");
  const frames = looks.flatMap(({ parts, reply }) => [
    make("li", {}, ...parts.filter(isPicture).map((picture) => drawPicture(picture)),
      ...[parts, ...(reply ? [reply.parts] : [])].map((texts) => make("p", { class: "note", title: join(texts) }, join(texts)))),
  ]);
  const last = sentPictures({ turns }).at(-1);
  frames.push(make("li", {}, last ? drawPicture(last, "last image sent") : null, make("p", {}, make("b", {}, draw.answer || "no answer"))));
  return make("ol", { class: "film", tabindex: "0", "aria-label": "looks" }, ...frames);
}

// ---- evidence and contact sheet

/** Format an answer, as the text of its choice if it is a letter. */
function formatAnswer(number, draw) {
  const { choices } = samples[number], place = /^[A-Z]$/.test(draw.answer) ? draw.answer.charCodeAt(0) - 65 : -1;
  const text = choices[place] || draw.answer || VERDICTS[draw.verdict];
  return text.length > MAX_LETTERS ? `${text.slice(0, MAX_LETTERS)}…` : text;
}

/** Return whether answers are drawn on the pictures, as boxes or points. */
function hasDrawnAnswers(pictures) {
  return pictures.some(({ marks }) => (marks || []).some(([kind]) => kind.includes(" ")));
}

/** The legend of answers drawn on pictures, with the number of answers outside the picture. */
function drawnAnswersLegend(pictures) {
  const outside = pictures.flatMap(({ marks }) => marks).filter(([kind, left, top, width, height]) =>
    kind.endsWith("found") && (left > 1 || top > 1 || left + width < 0 || top + height < 0)).length;
  return make("p", { class: "note places" }, make("i", { class: "true" }), " correct ", make("i", { class: "found" }), " answered",
    outside ? ` (${outside} outside the picture)` : "");
}

/** A contestant's picture of a sample with its verdict; a click shows the pictures of two contestants side by side. */
async function contact(number, who, before, after) {
  const draw = (answers[who][number] || [])[0], label = data.contestants[who];
  if (!draw) return make("span", { class: "soft" }, "–");
  const picture = picturesOf(who, await textsOf(number)).at(-1), verdict = VERDICTS[draw.verdict];
  const button = make("button", { type: "button", class: `contact rim-${verdict}`, title: label },
    picture ? drawMarked(picture, `picture of ${label}`) : placeholder(),
    make("span", { class: `v ${verdict}` }, `${SIGNS[draw.verdict]} ${formatAnswer(number, draw)}`));
  button.addEventListener("click", () => compareSample(number, before, after));
  return button;
}

/** Draw some flips of the largest significant change, with the pictures of the baseline and of the change. */
async function drawEvidence() {
  if (!data.evidence) return;
  const { contestant, rival, samples: flipped, selection, is_gained: isGained } = data.evidence;
  const base = rival === data.baselines[contestant] ? "" : data.contestants[rival];
  const all = make("a", { href: linkTo({ ...ANYTHING, who: data.contestants[contestant], base, task: data.tasks[samples[flipped[0]].task],
    flip: isGained ? "gained" : "lost", sheet: "1", columns: `${rival},${contestant}` }), "data-open": "samples" }, "see all");
  const shown = await Promise.all(flipped.map(async (number) => make("div", { class: "pair" },
    ...await Promise.all([rival, contestant].map((who) => contact(number, who, rival, contestant))))));
  const pictures = picturesOf(contestant, await textsOf(flipped[0]));
  fill("evidence", make("figure", { class: "chart" }, make("figcaption", {}, breakable(`${selection} (left: the baseline) `), all),
    hasDrawnAnswers(pictures) ? drawnAnswersLegend([]) : null, make("div", { class: "pairs" }, ...shown)));
}

/** The contestants of the contact sheet: those chosen, or else the baseline, the filtered one, and significant changes. */
function sheetColumns() {
  const given = state.columns.split(",").filter(Boolean).map(Number).filter((who) => who < data.contestants.length);
  const rows = data.finding.flatMap(({ changes }) => changes), significant = rows.filter((row) => row.is_significant);
  const likely = [chosen.base, chosen.who, data.baseline, ...[...significant, ...rows].map((row) => row.contestant), ...data.contestants.keys()];
  return (given.length ? given : [...new Set(likely.filter((who) => who !== null))]).slice(0, MAX_COLUMNS);
}

/** Draw the contact sheet: rows of samples by columns of contestants. */
async function drawSheet(found) {
  const columns = sheetColumns(), shown = found.slice(0, sheetRows);
  const choice = data.contestants.map((label, who) => {
    const box = make("input", { type: "checkbox", checked: columns.includes(who) });
    box.addEventListener("change", () =>
      go({ columns: (box.checked ? [...columns, who] : columns.filter((column) => column !== who)).slice(-MAX_COLUMNS).join(",") }, true));
    return make("label", {}, box, breakable(` ${label} `));
  });
  const isOpen = document.querySelector("#contacts details")?.open;
  const open = opened(found);
  const rows = await Promise.all(shown.map(async (number) => make("tr", { "aria-current": number === open ? "true" : null },
    make("th", { scope: "row" }, make("a", { href: linkTo({ sample: names[number], sheet: "" }) }, samples[number].id)),
    ...await Promise.all(columns.map(async (who) => make("td", {}, await contact(number, who, rivalOf(who), who)))))));
  const head = make("tr", {}, make("th", {}, "sample"), ...columns.map((who) => make("th", { scope: "col" }, breakable(data.contestants[who]))));
  const more = make("button", { type: "button" }, "show more");
  more.addEventListener("click", () => { sheetRows += SHEET_STEP; drawSheet(found); });
  fill("contacts", make("details", { open: isOpen }, make("summary", {}, `columns (at most ${MAX_COLUMNS})`), ...choice),
    make("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "contact sheet" },
      make("table", { class: "sheet" }, make("thead", {}, head), make("tbody", {}, ...rows))),
    found.length > sheetRows ? more : null);
}

// ---- natural size

/** Compare the open sample's picture of the filtered contestant, or the first that differs, with its rival's. */
async function compareOpen() {
  const number = opened(await filterSamples());
  if (number === undefined) return undefined;
  const asked = [...data.contestants.keys()].filter((who) => answers[who][number]);
  const who = chosen.who !== null && asked.includes(chosen.who) ? chosen.who
    : asked.find((one) => flipOf(one, rivalOf(one), number)) ?? asked.find((one) => one !== rivalOf(one)) ?? asked[0];
  return compareSample(number, rivalOf(who), who);
}

/** Show the pictures of two contestants side by side, with their answers, the question, and how their texts differ. */
async function compareSample(number, before, after) {
  const known = await textsOf(number), { question, key, id, task } = samples[number];
  const shown = [...new Set([before, after])].flatMap((who) => {
    const [draw] = answers[who][number] || [], pictures = picturesOf(who, known);
    const below = hasDrawnAnswers(pictures) ? drawnAnswersLegend(pictures) : pictures.length && pictures === known.pictures ? "No picture was sent; this is the sample's own." : "";
    return draw ? [{ title: `${data.contestants[who]}: ${SIGNS[draw.verdict]} ${formatAnswer(number, draw)}`, pictures, below }] : [];
  });
  const link = make("a", { href: linkTo({ ...ANYTHING, sheet: "", sample: names[number] }), "data-open": "samples" }, `${data.tasks[task]} / ${id}`);
  const about = make("p", { class: "question" }, link, `  ${question}`, key === null ? "" : `  Correct answer: ${formatAnswer(number, { answer: key })}`);
  showLarge(shown, about, before === after ? null : drawTextDifference(known, before, after));
}

/** The texts sent to two contestants with their differences marked; null if the text of one is not known. */
function drawTextDifference(known, rival, who) {
  const [before, after] = [rival, who].map((one) => (known.words.get(one) || []).slice(0, 1)
    .flatMap(({ turns }) => turns.filter(({ role }) => role === "system" || role === "user"))
    .flatMap(({ parts }) => parts.filter((part) => !isPicture(part)).map((part) => known.texts[part])).join("\n").split(/(?<=\s)/));
  if (!before[0] || !after[0]) return null;
  const runs = diffWords(before, after);
  if (runs.every(([tag]) => tag === "span")) return make("p", { class: "note" }, "Both got the same text.");
  const legend = `Text sent only to ${data.contestants[rival]} is struck out, text sent only to ${data.contestants[who]} is underlined:`;
  return make("div", {}, make("p", { class: "note" }, legend),
    make("p", { class: "diff question", tabindex: "0" }, ...runs.map(([tag, text]) => make(tag, {}, text))));
}

const MAX_WORDS = 1500; // of each side, without the shared beginning and end; longer texts are marked as a whole

/** Compare two lists of words: runs that both share ("span"), or that only the first ("del") or the second ("ins") has. */
function diffWords(before, after) {
  const most = Math.min(before.length, after.length), isSame = (i, j) => before[i].trim() === after[j].trim();
  let start = 0, end = 0;
  while (start < most && isSame(start, start)) start += 1;
  while (end < most - start && isSame(before.length - 1 - end, after.length - 1 - end)) end += 1;
  const left = before.slice(start, before.length - end), right = after.slice(start, after.length - end);
  const marked = Math.max(left.length, right.length) > MAX_WORDS
    ? [...left.map((word) => ["del", word]), ...right.map((word) => ["ins", word])] : diffMiddle(left, right);
  const runs = [];
  for (const [tag, word] of [...after.slice(0, start).map((text) => ["span", text]), ...marked, ...after.slice(after.length - end).map((text) => ["span", text])]) {
    if (runs.at(-1)?.[0] === tag) runs.at(-1)[1] += word;
    else runs.push([tag, word]);
  }
  return runs;
}

/** Compare two lists of words by their longest common subsequence. */
function diffMiddle(left, right) {
  const lengths = Array.from({ length: left.length + 1 }, () => new Uint16Array(right.length + 1)), marked = [];
  for (let i = left.length - 1; i >= 0; i -= 1) {
    for (let j = right.length - 1; j >= 0; j -= 1) {
      lengths[i][j] = left[i].trim() === right[j].trim() ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  let i = 0, j = 0;
  while (i < left.length || j < right.length) {
    if (i < left.length && j < right.length && left[i].trim() === right[j].trim()) marked.push(["span", right[(i += 1, j++)]]);
    else if (j === right.length || (i < left.length && lengths[i + 1][j] >= lengths[i][j + 1])) marked.push(["del", left[i++]]);
    else marked.push(["ins", right[j++]]);
  }
  return marked;
}

/** Open the dialog with figures side by side, each with a title, pictures and a note below them. */
function showLarge(figures, about = null, words = null) {
  const dialog = document.getElementById("large");
  dialog.dataset.side = "";
  fill("large-about", about);
  fill("large-pictures", ...figures.map(({ title, pictures, below }) => make("figure", {}, make("figcaption", {}, breakable(title)),
    ...(pictures.length ? pictures.map((picture) => drawMarked(picture, title)) : [leftOut()]), typeof below === "string" ? below && make("p", { class: "note" }, below) : below)));
  fill("large-words", words);
  document.getElementById("blink").hidden = figures.length < 2;
  if (!dialog.open) dialog.showModal();
}

/** Show only one of the two pictures, then the other at the same place. */
function blink() {
  const dialog = document.getElementById("large");
  if (!document.getElementById("blink").hidden) dialog.dataset.side = dialog.dataset.side === "0" ? "1" : "0";
}
