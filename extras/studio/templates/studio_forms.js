"use strict";
// Forms for the settings of a class. Values are written into a node as in a configuration; defaults are left out.

function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const PAINT = document.createElement("canvas").getContext("2d"); // knows colours by name
const TYPED = "textarea, input:not([type=checkbox], [type=radio], [type=range], [type=file], [type=color])"; // fields with an undo of their own
const ASKING = /\.(turns|agent)\./; // rooms of stages that ask the model
const last = (path) => path.split(".").pop();
/** A text whose names, such as `stages.mark_box`, break between words only. */
const breakable = (text) => text.split(/(?=_)|(?<=[a-z]\.)(?=[a-z])/i)
  .flatMap((part, n) => (n ? [el("wbr"), part] : [part]));
const prose = (text) => text.split("`").map((part, n) => (n % 2 ? el("code", {}, ...breakable(part)) : part));
/** As JSON with sorted keys, because the server may return another order. */
const sorted = (value) => JSON.stringify(value, (_, part) => (part?.constructor === Object ? Object.fromEntries(Object.entries(part).sort()) : part));
const same = (a, b) => sorted(a) === sorted(b);

/** The size of a picture, from which the style sheet computes how large it is shown. */
const sized = ({ width, height }) => ({ style: `--width: ${width}; --height: ${height}` });

function select(options, value, put, attributes = {}) {
  const box = el("select", { ...attributes, change: () => put(box.value) }, ...options);
  box.value = value;
  return box;
}

/** Rows for the settings of a class, which write into `node`, leaving defaults out. `then` is called after a change. */
function settingRows(path, node, place, studio, defaults = {}, then = () => {}) {
  const { settings, says } = studio.forms[path], sentences = says.split(/(?<=[.;])\s+/);
  return settings.map((given) => {
    const setting = given.name in defaults ? { ...given, default: defaults[given.name] } : given;
    const here = `${place}.${setting.name}`, set = node[setting.name];
    const put = (value) => {
      const isChanged = value !== undefined && !same(value, setting.default);
      if (isChanged) node[setting.name] = value;
      else delete node[setting.name];
      row.classList.toggle("changed", isChanged);
      then();
      studio.changed();
    };
    const reset = () => { put(undefined); studio.redraw(); };
    const help = sentences.filter((sentence) => sentence.includes(`\`${setting.name}\``)).join(" ");
    const name = el("label", { for: here, title: help.replaceAll("`", "") || setting.words, dblclick: reset }, ...breakable(setting.name));
    const row = el("div", { class: set === undefined ? "setting" : "setting changed", "data-place": here }, name);
    row.append(...CONTROLS[setting.kind](setting, set === undefined ? setting.default : set, put, here, studio));
    return row;
  });
}

/** The limits of a number's slider: its range, or a guess from its default. */
function sliderOf(setting) {
  const usual = Math.abs(setting.default || 0), step = setting.kind === "whole" || usual >= 2 ? 1 : 0.01;
  return { min: setting.min ?? (setting.default < 0 ? -6 * usual : 0), max: setting.max ?? Math.max(4, usual ? 6 * usual : 20), step };
}

function number(setting, value, put, here, studio) {
  const { min, max, step } = sliderOf(setting);
  const read = ({ value: text, validity }) => (validity.badInput ? "not a number" : text.trim() === "" ? (setting.null ? null : undefined) : Number(text));
  const slider = el("input", { type: "range", min, max, step, "aria-label": `${setting.name}, slider`,
    input: () => { typed.value = slider.value; put(Number(slider.value)); } });
  const typed = el("input", { type: "number", id: here, step: "any", placeholder: setting.null ? "null" : setting.default,
    input: () => { slider.value = typed.value; put(read(typed)); } });
  typed.value = slider.value = value ?? "";
  const along = el("button", { type: "button", title: "ask at several values of this slider", "aria-label": `ask along ${setting.name}`,
    click: () => studio.askAlong(here, { min, max, step, now: Number(typed.value) }) }, "≈");
  return [slider, typed, along];
}

function text(setting, value, put, here, tag = "input") {
  const box = el(tag, { id: here, placeholder: value === null ? "null" : null, spellcheck: "false",
    input: () => put(box.value === "" && setting.null ? null : box.value) });
  box.value = value ?? "";
  return [box];
}

/** A stage or a specialist as a setting: its class, and its own settings, folded. */
function part(setting, value, put, here, studio) {
  const paths = setting.of === "stages" ? Object.values(studio.rooms).flat() : setting.of;
  const path = value === null || value === undefined ? "" : value.use || setting.is || paths[0];
  const choose = (chosen) => {
    put(chosen === "" ? (setting.null ? null : undefined) : chosen === setting.is ? undefined : { use: chosen });
    studio.redraw();
  };
  const none = setting.null || !path ? [el("option", { value: "" }, setting.null ? "null" : "choose ...")] : [];
  const shown = paths.includes(path) || !path ? paths : [path, ...paths];
  const options = [...none, ...shown.map((p) => classOption(studio, p))];
  const made = [select(options, path, choose, { id: here })];
  if (!path || !studio.forms[path]) return made;
  const { use, ...defaults } = !value.use || value.use === setting.default?.use ? setting.default || {} : {};
  const own = same(value, setting.default) ? {} : { ...value };
  const rows = settingRows(path, own, here, studio, defaults, () => put(Object.keys(own).length ? { ...own } : undefined));
  return rows.length ? [...made, el("details", {}, el("summary", {}, `settings of ${last(path)}`), ...rows)] : made;
}

const CONTROLS = {
  number, whole: number, part,
  text: (setting, value, put, here) => text(setting, value, put, here),
  words: (setting, value, put, here) => text(setting, value, put, here, "textarea"),
  flag(setting, value, put, here) {
    const box = el("input", { type: "checkbox", id: here, change: () => put(box.checked) });
    box.checked = Boolean(value);
    return [box];
  },
  choice(setting, value, put, here) {
    const options = (setting.null ? [null, ...setting.of] : setting.of).map((choice) => el("option", { value: JSON.stringify(choice) }, String(choice)));
    return [select(options, JSON.stringify(value ?? null), (chosen) => put(JSON.parse(chosen)), { id: here })];
  },
  color(setting, value, put, here) {
    const [typed] = text(setting, value, put, here);
    typed.setAttribute("list", "colors");
    const swatch = el("input", { type: "color", "aria-label": `${setting.name}, swatch`, input: () => { typed.value = swatch.value; put(swatch.value); } });
    const show = () => {
      const [dark, light] = ["#000000", "#ffffff"].map((ground) => Object.assign(PAINT, { fillStyle: ground }, { fillStyle: typed.value }).fillStyle);
      swatch.classList.toggle("unset", dark !== light); // null, "contrast": not a colour
      swatch.value = dark;
    };
    typed.addEventListener("input", show);
    show();
    return [typed, swatch];
  },
  model(setting, value, put, here, studio) {
    const options = ["", ...studio.models].map((name) => el("option", { value: name }, name || "the study's model"));
    return [select(options, value?.ref || "", (name) => put(name ? { ref: name } : undefined), { id: here })];
  },
  json(setting, value, put, here) {
    const box = el("input", { id: here, title: `${setting.words}, as JSON`, spellcheck: "false", input: () => {
      try { put(box.value.trim() ? JSON.parse(box.value) : undefined); } catch { put(box.value); }
    } });
    box.value = value === undefined ? "" : JSON.stringify(value);
    return [box];
  },
};

/** The `open` settings of a stage, and the others folded under "more" unless one is changed. */
function foldRows(rows, open, place, studio) {
  const isOpen = ({ dataset }) => open.includes(dataset.place.slice(place.length + 1));
  const others = rows.filter((row) => !isOpen(row)), id = `more-${place}`;
  if (!others.length) return rows;
  if (others.some((row) => row.classList.contains("changed"))) studio.unfolded.add(id);
  const toggle = () => studio.unfolded[more.open ? "add" : "delete"](id);
  const more = el("details", { class: "more", open: studio.unfolded.has(id), toggle },
    el("summary", { id }, `more (${others.length})`), ...others);
  return [...rows.filter(isOpen), more];
}

/** A card for each stage: its class, switch, position, settings, and faults. */
function stageCards(studio) {
  const { stages } = studio.draft;
  const move = (from, to) => {
    if (!stages[from] || !stages[to] || from === to) return;
    stages.splice(to, 0, ...stages.splice(from, 1));
    studio.restage();
  };
  return stages.map((stage, number) => {
    const place = `stages.${stage.slot}`, form = studio.forms[stage.node.use];
    const choose = (use) => { stage.node = { use }; studio.restage(); };
    const on = el("input", { type: "checkbox", "aria-label": `${stage.slot} on`, change: () => { stage.on = on.checked; studio.changed(); } });
    on.checked = stage.on;
    const button = (sign, says, click) => el("button", { type: "button", "aria-label": `${stage.slot}: ${says}`, title: says, click }, sign);
    const head = el("header", { draggable: "true", dragstart: (event) => event.dataTransfer.setData("stage", number) },
      on, el("b", {}, ...breakable(stage.slot)), select(classOptions(studio, stage.node.use), stage.node.use, choose, { "aria-label": `${stage.slot}: class` }),
      button("↑", "move up", () => move(number, number - 1)), button("↓", "move down", () => move(number, number + 1)),
      button("×", "remove", () => { stages.splice(number, 1); studio.restage(); }));
    const [first, ...more] = form ? form.says.split(/(?<=\.)\s+/) : [""];
    const says = more.length ? el("details", { class: "soft" }, el("summary", {}, ...prose(first)), el("p", { class: "says" }, ...prose(more.join(" ")))) : el("p", { class: "soft" }, ...prose(first));
    const rows = form ? settingRows(stage.node.use, stage.node, place, studio) : [];
    const settings = el("details", { open: !studio.folded.has(stage.slot), toggle: () => studio.folded[settings.open ? "delete" : "add"](stage.slot) },
      el("summary", {}, "settings"), ...foldRows(rows, form?.open, place, studio));
    return el("article", { class: "card", "data-slot": stage.slot, drop: (event) => move(parseInt(event.dataTransfer.getData("stage")), number) },
    head, says, rows.length ? settings : null, el("p", { class: "fault", role: "alert", "data-fault": place }));
  });
}

/** An option for a class, grey if it needs weights that the studio does not include. */
function classOption(studio, path) {
  const needs = studio.forms[path]?.weights;
  return el("option", { value: path, class: needs ? "soft" : null }, last(path) + (needs ? " (needs weights)" : ""));
}

/** The stages by room; with `words`, those with it in their names (the earlier the better), then those with it in their descriptions. */
function classOptions(studio, chosen = "", words = "") {
  const sought = words.trim().toLowerCase(), at = (path) => last(path).toLowerCase().indexOf(sought.replaceAll(" ", ""));
  const needs = ({ weights, settings }) => weights || settings.some((setting) => !("default" in setting));
  const rank = (path) => at(path) + (ASKING.test(path) ? 0.5 : 0) + (needs(studio.forms[path]) ? 0.25 : 0); // stages that work without further settings come first
  const paths = Object.values(studio.rooms).flat(), named = paths.filter((path) => at(path) >= 0).sort((a, b) => rank(a) - rank(b));
  const speaking = paths.filter((path) => !named.includes(path) && `${path} ${studio.forms[path].says}`.toLowerCase().includes(sought));
  const groups = (sought ? [["by name", named], ["by description", speaking]] : Object.entries(studio.rooms)).filter(([, of]) => of.length)
    .map(([label, of]) => el("optgroup", { label }, ...of.map((path) => classOption(studio, path))));
  return chosen && !studio.forms[chosen] ? [el("option", { value: chosen }, chosen), ...groups] : groups;
}
