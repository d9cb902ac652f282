"use strict";
// One item at a time: its question, a cross, the pictures for their exposure, a mask, the answer.

const CROSS = 500, MASK = 500;  // ms
const BLOCK = 6;  // pixels: the side of the blocks that the mask shuffles
const SPACE = " ";

/** Wait for the frame that begins nearest to a time; return its start. `before` is the previous frame's. */
async function frameAt(time, before) {
  for (;;) {
    const now = await new Promise(requestAnimationFrame);
    if (now + Math.min(now - before, 20) / 2 >= time) return now;
    before = now;
  }
}

/** Draw the pictures side by side, and a mask: their blocks in an order that depends only on their size. */
async function draw(pictures, stage) {
  const images = pictures.map(src => Object.assign(new Image(), {src}));
  await Promise.all(images.map(image => image.decode()));
  const width = images.reduce((sum, image) => sum + image.width, 0), height = Math.max(BLOCK, ...images.map(image => image.height));
  const [picture, mask] = ["picture", "mask"].map(className =>
    Object.assign(make("canvas", undefined, stage), {className, width: Math.max(BLOCK, width), height}));
  let left = 0, chance = 1;
  for (const image of images) {
    picture.getContext("2d").drawImage(image, left, 0);
    left += image.width;
  }
  const places = [];
  for (let y = 0; y < height; y += BLOCK)
    for (let x = 0; x < width; x += BLOCK) places.push([chance = (1664525 * chance + 1013904223) % 2 ** 32, x, y]);
  places.toSorted(([first], [second]) => first - second).forEach(([, x, y], to) => mask.getContext("2d").drawImage(
    picture, Math.min(x, width - BLOCK), Math.min(y, height - BLOCK), BLOCK, BLOCK, ...places[to].slice(1), BLOCK, BLOCK));
}

/** Return the option that a person presses or clicks, and when; without options, text ended by Enter. */
function askFor(words, options, box) {
  return new Promise(resolve => {
    const form = make("form", undefined, box), label = make("label", `${words} `, form);
    const end = (value, event) => {
      event.preventDefault();
      form.remove();
      resolve([value, event.timeStamp]);
    };
    for (const name of options) make("button", name === SPACE ? "space" : name, form).onclick = event => end(name, event);
    const input = options.length ? null : Object.assign(make("input", undefined, label), {required: true});
    input?.focus({preventScroll: true});
    form.onsubmit = event => end(input.value.trim(), event);
    document.onkeydown = event => {
      const option = options.find(name => name === event.key.toUpperCase());
      const isOtherInput = event.ctrlKey || event.metaKey || event.target.id === "rater";
      if (option && form.isConnected && !event.repeat && !isOtherInput) end(option, event);
    };
  });
}

/** Show the first item without an answer, then the next. */
async function showTrial() {
  const main = document.getElementById("items"), item = sheet.items.find(item => !kept[item.item]?.human_answer);
  count();
  main.replaceChildren();
  if (!item) return make("p", "That was the last one. Save your answers as CSV.", main);
  const box = make("section", undefined, main);
  make("h2", `${item.item}. ${item.task}${item.key ? ", practice" : ""}`, box);
  for (const text of [item.question, item.choices]) make("p", text, box).className = "words";
  const stage = make("div", undefined, box);
  stage.className = "stage";
  make("span", "+", stage).className = "cross";
  await draw(item.pictures, stage);
  const [, pressed] = await askFor("Look at the centre, and press", [SPACE], box);
  stage.scrollIntoView({block: "center"});
  stage.dataset.seen = "cross";
  const onset = await frameAt(pressed + CROSS, pressed);
  stage.dataset.seen = "picture";
  const masked = sheet.exposure && frameAt(onset + sheet.exposure, onset).then(end => {
    stage.dataset.seen = "mask";
    frameAt(end + MASK, end).then(() => { if (stage.dataset.seen === "mask") stage.dataset.seen = ""; });
    return end;
  });
  const letters = [...item.choices.matchAll(/^\((\w)/gm)].map(([, letter]) => letter);
  const [answer, answered] = await askFor("Your answer:", letters, box);
  const end = await masked || answered;
  if (!masked) stage.dataset.seen = "";
  const [difficulty] = await askFor("How difficult was it, from 1 (easy) to 5 (hard)?", [..."12345"], box);
  const times = {exposure_ms: (end - onset).toFixed(1), response_ms: (answered - onset).toFixed(1)};
  for (const [name, value] of Object.entries({difficulty, ...times, human_answer: answer})) keep(item.item, name, value);
  if (item.key) {
    stage.dataset.seen = "picture";
    const verdict = answer.toLowerCase() === item.key.toLowerCase() ? "Right" : `Wrong: the answer is ${item.key}`;
    await askFor(`${verdict}. To continue, press`, [SPACE], box);
  }
  showTrial();
}
