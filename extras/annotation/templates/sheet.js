"use strict";
const sheet = JSON.parse(document.getElementById("data").textContent);
const place = "looktwice-sheet-" + (sheet.exposure ?? "") + sheet.items.map(item => item.sample).join(" ").slice(0, 400);
let kept = {};
try { kept = JSON.parse(localStorage.getItem(place) || "{}"); } catch { /* a page from disk may have no storage */ }

function make(tag, text, parent) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  parent.append(node);
  return node;
}

function keep(item, name, value) {
  (kept[item] ??= {})[name] = value;
  try { localStorage.setItem(place, JSON.stringify(kept)); } catch { /* the entry is only on the page */ }
  count();
}

function count() {
  const done = sheet.items.filter(item => (kept[item.item] || {})[sheet.filled[0]]).length;
  document.getElementById("count").textContent = `${done} of ${sheet.items.length} filled in`;
}

function field(form, item, name) {
  const label = make("label", name.replace("_", " ") + " ", form);
  const held = (kept[item.item] || {})[name] || "";
  const options = name === "category" ? sheet.taxonomy : name === "difficulty" ? ["1", "2", "3", "4", "5"] : [];
  const input = make(options.length ? "select" : name === "note" ? "textarea" : "input", undefined, label);
  if (options.length) for (const text of ["", ...new Set([...options, held])].filter((t, i) => t || !i)) make("option", text, input);
  input.value = held;
  if (name === "human_answer" && item.choices) input.placeholder = "letter or text of a choice";
  input.addEventListener("input", () => keep(item.item, name, input.value));
}

function show() {
  if (sheet.exposure !== null) return showTrial();
  const main = document.getElementById("items");
  main.replaceChildren();
  for (const item of sheet.items) {
    const box = make("section", undefined, main);
    make("h2", `${item.item}. ${item.task} ${item.sample}`, box);
    for (const address of item.pictures) {
      const image = make("img", undefined, box);
      image.src = address;
      image.alt = "image shown to the model";
    }
    make("p", item.question, box).className = "words";
    if (item.choices) make("p", item.choices, box).className = "words";
    for (const name of ["contestant", "key", "answer", "reply"])
      if (item[name]) make("p", `${name}: ${item[name]}`, box).className = "words " + name;
    const form = make("form", undefined, box);
    form.addEventListener("submit", event => event.preventDefault());
    for (const name of sheet.filled) field(form, item, name);
  }
  count();
}

const cell = text => `"${String(text).replaceAll('"', '""')}"`;

document.getElementById("save").addEventListener("click", () => {
  const names = ["item", "task", "sample", ...sheet.filled];
  const rows = sheet.items.map(item => names.map(name => cell(item[name] ?? (kept[item.item] || {})[name] ?? "")).join(","));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([[names.join(","), ...rows].join("\r\n") + "\r\n"], {type: "text/csv"}));
  link.download = `${document.getElementById("rater").value.replace(/[^\w-]+/g, "_") || "rater"}.csv`;
  link.click();
});

document.getElementById("load").addEventListener("change", async event => {
  const text = await event.target.files[0].text();
  const rows = [...text.matchAll(/(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r?\n|$)/g)].reduce((all, found) => {
    all.at(-1).push(found[1] === undefined ? found[2] : found[1].replaceAll('""', '"'));
    if (found[3] !== ",") all.push([]);
    return all;
  }, [[]]);
  const names = rows.shift();
  for (const row of rows.filter(row => row.length === names.length)) {
    const known = Object.fromEntries(names.map((name, at) => [name, row[at]]));
    for (const name of sheet.filled) keep(known.item, name, known[name] || "");
  }
  show();
});
show();
