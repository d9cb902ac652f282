"use strict";
// One item at a time: its question, a fixation, the pictures for their exposure, a mask, the answer.

const FIXATION = 500, MASK = 500;  // ms
const BLOCK = 6;  // pixels of a side of what the mask shuffles
const SPACE = " ";

/** The frame that begins nearest to a time, and when it begins; `before` is the frame before. */
async function frameAt(time, before) {
  for (;;) {
    const now = await new Promise(requestAnimationFrame);
    if (now + Math.min(now - before, 20) / 2 >= time) return now;
    before = now;
  }
}

function blank(width, height) {
  return Object.assign(document.createElement("canvas"), {width, height});
}

/** The pictures of an item beside one another, decoded and drawn, and their mask of the same size. */
async function draw(item, room) {
  const images = await Promise.all(item.pictures.map(async address => {
    const image = Object.assign(new Image(), {src: address});
    await image.decode();
    return image;
  }));
  const wide = images.reduce((sum, image) => sum + image.width, 0), high = Math.max(1, ...images.map(image => image.height));
  const scale = Math.min(1, room / wide, 0.6 * innerHeight / high);
  const blocks = length => BLOCK * Math.max(1, Math.ceil(length * scale / BLOCK));
  const picture = blank(blocks(wide), blocks(high)), paint = picture.getContext("2d");
  let left = 0;
  for (const image of images) {
    paint.drawImage(image, left, 0, image.width * scale, image.height * scale);
    left += image.width * scale;
  }
  return [picture, shuffled(picture)];
}

/** The blocks of a picture at other places, always the same for its size. */
function shuffled(picture) {
  const mask = blank(picture.width, picture.height), paint = mask.getContext("2d"), places = [];
  for (let top = 0; top < mask.height; top += BLOCK) for (let left = 0; left < mask.width; left += BLOCK) places.push([left, top]);
  const from = [...places];
  for (let at = from.length - 1, seed = 1; at > 0; at--) {
    seed = (1664525 * seed + 1013904223) % 2 ** 32;
    const chosen = Math.floor(seed / 2 ** 32 * (at + 1));
    [from[at], from[chosen]] = [from[chosen], from[at]];
  }
  places.forEach((place, at) => paint.drawImage(picture, ...from[at], BLOCK, BLOCK, ...place, BLOCK, BLOCK));
  return mask;
}

/** Which option somebody presses or clicks, and when; without options, words that Enter ends. */
function askFor(words, options, box) {
  return new Promise(resolve => {
    const form = make("form", undefined, box), label = make("label", `${words} `, form);
    const end = (value, event) => {
      removeEventListener("keydown", press);
      form.remove();
      resolve([value, event.timeStamp]);
    };
    const press = event => {
      const option = options.find(name => name.toLowerCase() === event.key.toLowerCase());
      if (!form.isConnected || !option || event.repeat || event.target.id === "rater") return;
      event.preventDefault();
      end(option, event);
    };
    addEventListener("keydown", press);
    for (const name of options) make("button", name === SPACE ? "space" : name, form).onclick = event => end(name, event);
    const input = options.length ? null : make("input", undefined, label);
    input?.focus({preventScroll: true});
    form.addEventListener("submit", event => {
      event.preventDefault();
      if (input?.value.trim()) end(input.value.trim(), event);
    });
  });
}

/** The first item without an answer, and after it the next. */
async function showTrial() {
  const main = document.getElementById("items"), item = sheet.items.find(item => !(kept[item.item] || {}).human_answer);
  count();
  main.replaceChildren();
  if (!item) return make("p", "That was the last one. Save it as CSV.", main);
  const box = make("section", undefined, main);
  make("h2", `${item.item}. ${item.task}${item.key ? ", for practice" : ""}`, box);
  for (const text of [item.question, item.choices]) make("p", text, box).className = "words";
  const stage = make("div", undefined, box), [picture, mask] = await draw(item, box.clientWidth);
  stage.className = "stage";
  stage.append(picture, mask);
  const cross = make("span", "+", stage), only = shown => {
    for (const part of stage.children) part.style.visibility = part === shown ? "visible" : "hidden";
  };
  only();
  const [, pressed] = await askFor("Look at the middle, and press", [SPACE], box);
  stage.scrollIntoView({block: "center"});
  only(cross);
  const onset = await frameAt(pressed + FIXATION, pressed);
  only(picture);
  const masked = sheet.exposure && frameAt(onset + sheet.exposure, onset).then(end => {
    only(mask);
    frameAt(end + MASK, end).then(() => only());
    return end;
  });
  const letters = item.choices ? item.choices.split("\n").map(line => line[1]) : [];
  const [answer, answered] = await askFor("Your answer:", letters, box);
  const end = await masked || answered;
  only();
  const [difficulty] = await askFor("How difficult was it, from 1 (easy) to 5 (hard)?", ["1", "2", "3", "4", "5"], box);
  const filled = {difficulty, exposure_ms: end - onset, response_ms: answered - onset, human_answer: answer};
  for (const [name, value] of Object.entries(filled)) keep(item.item, name, value.toFixed?.(1) ?? value);
  if (item.key) {
    only(picture);
    const verdict = answer.toLowerCase() === item.key.toLowerCase() ? "Right" : `Wrong, it is ${item.key}`;
    await askFor(`${verdict}. Go on with`, [SPACE], box);
  }
  showTrial();
}
