"use strict";
// The pictures of the question with their marks: a click places a point, a drag a box or, with the lasso, a region; marks
// are moved by dragging or by the arrow keys. Points are in pixel centres, boxes in edges, as everywhere.

const SVG = "http://www.w3.org/2000/svg";
const LEAST = 4; // screen pixels from which a click counts as a drag
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function shape(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const lineOf = (mark) => mark.lasso || mark.outline;

/** A mark moved by whole pixels, within its picture. */
function moved(mark, dx, dy, { width, height }) {
  const corners = lineOf(mark) || ("x" in mark ? [[mark.x, mark.y]] : [[mark.x0, mark.y0], [mark.x1 - 1, mark.y1 - 1]]);
  const xs = corners.map(([x]) => x), ys = corners.map(([, y]) => y);
  dx = Math.max(-Math.min(...xs), Math.min(width - 1 - Math.max(...xs), dx));
  dy = Math.max(-Math.min(...ys), Math.min(height - 1 - Math.max(...ys), dy));
  if ("x" in mark) return { ...mark, x: mark.x + dx, y: mark.y + dy };
  if ("x0" in mark) return { ...mark, x0: mark.x0 + dx, y0: mark.y0 + dy, x1: mark.x1 + dx, y1: mark.y1 + dy };
  return { label: mark.label, image: mark.image, lasso: corners.map(([x, y]) => [x + dx, y + dy]) };
}

class Canvas {
  constructor(image, number, studio) {
    Object.assign(this, { image, number, studio, cross: [image.width >> 1, image.height >> 1], selected: -1, start: null });
    this.svg = shape("svg", { viewBox: `0 0 ${image.width} ${image.height}`, tabindex: 0, role: "application",
      "aria-label": `picture ${number + 1}, ${image.width} x ${image.height} pixels: arrow keys move the cross, Enter places a point there,`
        + " which the arrow keys then move; Escape deselects it, Delete removes it" });
    const remove = el("button", { type: "button", "aria-label": `remove picture ${number + 1}`, click: () => studio.removePicture(number) }, "×");
    this.box = el("div", {}, el("p", { class: "soft" }, `picture ${number + 1} `, remove), el("div", { class: "canvas", ...sized(image) }, el("img", { src: studio.talk.picture(image.sha), alt: "" }), this.svg));
    for (const kind of ["pointerdown", "pointermove", "pointerup", "keydown"]) this.svg.addEventListener(kind, (event) => this[kind](event));
    this.draw();
  }

  get marks() { return this.studio.draft.marks; }

  /** The pixel under the pointer. */
  pixel({ clientX, clientY }) {
    const { left, top, width, height } = this.svg.getBoundingClientRect(), within = (v, n) => Math.max(0, Math.min(n - 1, Math.floor(v)));
    return [within((clientX - left) * this.image.width / width, this.image.width), within((clientY - top) * this.image.height / height, this.image.height)];
  }

  pointerdown(event) {
    const on = event.target.closest("[data-mark]");
    this.selected = on ? Number(on.dataset.mark) : -1;
    this.start = { at: this.pixel(event), client: [event.clientX, event.clientY], mark: on && this.marks[this.selected], line: [], dragged: false };
    this.svg.setPointerCapture(event.pointerId);
  }

  pointermove(event) {
    const { start } = this;
    if (!start) return;
    const [x, y] = this.pixel(event);
    if (!start.dragged) {
      if (Math.hypot(event.clientX - start.client[0], event.clientY - start.client[1]) < LEAST) return;
      start.dragged = true;
    }
    start.line.push([x, y]);
    if (!start.mark) return this.draw(this.made(x, y));
    this.marks[this.selected] = moved(start.mark, x - start.at[0], y - start.at[1], this.image);
    this.draw();
    this.studio.changed();
  }

  pointerup(event) {
    const { start } = this, [x, y] = this.pixel(event);
    if (!start) return;
    const made = start.mark ? null : start.dragged ? this.made(x, y) : { x, y };
    this.start = null;
    if (made) this.add(made);
    else this.draw();
  }

  /** The mark that a drag makes: a box, or the region inside its line. */
  made(x, y) {
    const { at: [x0, y0], line } = this.start;
    if (this.studio.tool() === "lasso") return { lasso: [[x0, y0], ...line] };
    return { x0: Math.min(x0, x), y0: Math.min(y0, y), x1: Math.max(x0, x) + 1, y1: Math.max(y0, y) + 1 };
  }

  add(mark) {
    const taken = new Set(this.marks.map(({ label }) => label)), free = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZ"].find((letter) => !taken.has(letter));
    this.selected = this.marks.push({ label: free || String(this.marks.length + 1), ...mark, image: this.number }) - 1;
    this.studio.drawMarks();
  }

  keydown(event) {
    const { marks, selected } = this, by = ARROWS[event.key], isSelected = marks[selected]?.image === this.number;
    if (by) {
      const [dx, dy] = by.map((step) => step * (event.shiftKey ? 10 : 1));
      if (isSelected) {
        marks[selected] = moved(marks[selected], dx, dy, this.image);
        this.studio.changed();
      } else {
        this.cross = [Math.max(0, Math.min(this.image.width - 1, this.cross[0] + dx)), Math.max(0, Math.min(this.image.height - 1, this.cross[1] + dy))];
      }
      this.draw();
    } else if (event.key === "Enter") this.add({ x: this.cross[0], y: this.cross[1] });
    else if (event.key === "Escape") { this.selected = -1; this.draw(); }
    else if (["Delete", "Backspace"].includes(event.key) && isSelected) this.studio.removeMark(selected);
    else return;
    event.preventDefault();
  }

  draw(unfinished = null) {
    const unit = this.image.width / (this.svg.getBoundingClientRect().width || this.image.width); // picture pixels per screen pixel
    const line = { "vector-effect": "non-scaling-stroke", fill: "transparent" }, [x, y] = this.cross;
    const drawn = (mark, number) => {
      const corner = lineOf(mark)?.[0] || ("x" in mark ? [mark.x, mark.y] : [mark.x0, mark.y0]);
      const made = "x" in mark ? shape("circle", { ...line, cx: mark.x + 0.5, cy: mark.y + 0.5, r: 8 * unit })
        : "x0" in mark ? shape("rect", { ...line, x: mark.x0, y: mark.y0, width: mark.x1 - mark.x0, height: mark.y1 - mark.y0 })
          : shape("polygon", { ...line, points: lineOf(mark).map((point) => point.join(",")).join(" ") });
      const label = shape("text", { x: corner[0] + 10 * unit, y: corner[1] - 4 * unit, "font-size": 13 * unit }, mark.label ?? "");
      return shape("g", { "data-mark": number, class: number === this.selected ? "mark selected" : "mark" }, made, label);
    };
    const own = this.marks.map((mark, number) => [mark, number]).filter(([mark]) => (mark.image || 0) === this.number);
    this.svg.replaceChildren(...own.map(([mark, number]) => drawn(mark, number)), ...(unfinished ? [drawn(unfinished, -1)] : []),
      shape("path", { class: "cross", d: `M${x + 0.5 - 9 * unit},${y + 0.5}h${18 * unit}M${x + 0.5},${y + 0.5 - 9 * unit}v${18 * unit}`, "vector-effect": "non-scaling-stroke" }));
  }
}

/** The list of marks, with editable labels. */
function markList(studio) {
  return studio.draft.marks.map((mark, number) => {
    const label = el("input", { size: 4, "aria-label": `label of mark ${number + 1}`, input: () => { mark.label = label.value; studio.canvases.forEach((c) => c.draw()); studio.changed(); } });
    label.value = mark.label ?? "";
    const at = (...names) => `(${names.map((name) => Math.round(mark[name] * 10) / 10).join(", ")})`;
    const where = "x" in mark ? `point ${at("x", "y")}`
      : "x0" in mark ? `box ${at("x0", "y0", "x1", "y1")}` : "region";
    const on = studio.draft.images.length > 1 ? `on picture ${(mark.image || 0) + 1} ` : "";
    return el("li", {}, label, ` ${where} ${on}`, el("button", { type: "button", "aria-label": `remove mark ${number + 1}`, click: () => studio.removeMark(number) }, "×"));
  });
}

/** Take pictures dropped anywhere on the page, which is outlined while they are dragged over it. */
function listenToDrops(studio) {
  const { root } = studio, has = (event, kind) => event.dataTransfer.types.includes(kind);
  const outline = (isDragged) => { root.dataset.dragged = isDragged ? "1" : ""; };
  root.addEventListener("dragover", (event) => {
    outline(has(event, "Files"));
    if (has(event, "Files") || has(event, "stage")) event.preventDefault(); // allows the drop
  });
  root.addEventListener("dragleave", ({ relatedTarget }) => {
    if (!root.contains(relatedTarget)) outline(false);
  });
  root.addEventListener("drop", (event) => {
    outline(false);
    if (has(event, "Files") || has(event, "stage")) event.preventDefault();
    studio.upload([...event.dataTransfer.files]);
  });
}
