"use strict";
// The studio itself: the content of the page is a draft, which the server renders, asks, reads and packs. Only one render
// request is in flight at a time, and the last change is always rendered.

class Studio {
  constructor(root, talk) {
    Object.assign(this, { root, talk, after: null, isOnItsWay: false, isWanted: false, atWork: 0, moved: 0, rows: [], canvases: [], kept: {}, folded: new Set(), unfolded: new Set() });
    Object.assign(this, { undone: [], redone: [], present: "", isNewStep: true, field: null });
    root.tabIndex = -1; // takes the focus of elements that are removed while they have it
  }

  $(id) { return this.root.querySelector(`#${id}`); }

  tool() { return this.root.querySelector("[name=tool]:checked").value; }

  async start() {
    const { draft, images, ...catalog } = (await this.talk.get("start"));
    Object.assign(this, catalog, { draft, present: JSON.stringify(draft), images: Object.fromEntries(images.map((image) => [image.name, image])) });
    this.$("new").replaceChildren(...classOptions(this));
    this.$("new").value = "prompting.markers.Circles";
    this.$("colors").replaceChildren(...this.colors.map((value) => el("option", { value })));
    this.$("example-picture").src = this.talk.picture(this.images[this.example.images[0]].sha);
    this.$("model").replaceChildren(...this.models.map((name) => el("option", {}, name)));
    this.listen();
    this.foldMany();
    this.redrawAll();
  }

  /** Fold the cards of a study with many stages. */
  foldMany() {
    const { stages } = this.draft;
    this.folded = new Set(stages.length > 3 ? stages.map(({ slot }) => slot) : []);
  }

  listen() {
    const on = (id, kind, act) => this.$(id).addEventListener(kind, act);
    const typed = (id, put) => on(id, "input", () => { put(this.$(id).value); this.changed(); });
    typed("question", (text) => { this.draft.question = text; });
    typed("choices", (text) => {
      this.draft.choices = text.split("\n").filter((line) => line.trim()).map((line) => (line.startsWith("image: ") ? { image: line.slice(7) } : line));
      this.offerChoices();
    });
    typed("key", (text) => { this.draft.answer = text.trim() || null; });
    typed("draws", (text) => { this.draft.draws = Number(text) || 1; });
    on("model", "change", () => { this.draft.model = this.$("model").value; this.changed(); });
    on("add", "click", () => this.addStage(this.$("new").value));
    on("find", "input", () => this.$("new").replaceChildren(...classOptions(this, "", this.$("find").value)));
    on("find", "keydown", (event) => { if (event.key === "Enter") this.addStage(this.$("new").value); });
    on("fold", "click", () => {
      const slots = this.draft.stages.map(({ slot }) => slot), isFolded = slots.every((slot) => this.folded.has(slot));
      this.folded = new Set(isFolded ? [] : slots);
      this.$("fold").textContent = isFolded ? "fold all" : "unfold all";
      this.redraw();
    });
    on("file", "change", () => { this.upload([...this.$("file").files]); this.$("file").value = ""; });
    on("example", "click", () => this.showExample());
    listenToDrops(this);
    on("undo", "click", () => this.undo());
    this.root.addEventListener("keydown", (event) => {
      if (event.key.toLowerCase() !== "z" || !(event.ctrlKey || event.metaKey) || event.target.matches(TYPED)) return;
      event.preventDefault();
      if (event.shiftKey) this.undo(this.redone, this.undone);
      else this.undo();
    });
    // one gesture, or the input into one field, is one step
    for (const kind of ["pointerdown", "focusin"]) this.root.addEventListener(kind, () => this.begin(), true);
    this.root.addEventListener("keydown", ({ key, repeat, target }) => { if (key === "Enter" || !(repeat || target.matches(TYPED))) this.begin(); }, true);
    this.root.addEventListener("input", ({ target }) => {
      if (target !== this.field) this.begin();
      this.field = target;
    }, true);
    on("after", "input", () => { const at = Number(this.$("after").value); this.after = at < this.draft.stages.length ? at : null; this.changed(); });
    on("scale", "change", () => { this.$("views").className = this.$("scale").value; });
    on("ask", "click", () => this.ask());
    on("each", "click", () => { this.draft.each = this.changesOfRows(); this.changed(); });
    on("plain", "click", () => { Object.assign(this.draft, { each: [], sweep: {} }); this.changed(); });
    on("copy", "click", () => this.copy());
    on("pack", "click", () => this.pack());
    on("yaml", "input", () => this.read());
    on("rows", "click", ({ target }) => { if (!getSelection().toString()) target.closest("li")?.classList.toggle("large"); });
  }

  /** Load the example, and move the focus from its button, which disappears, to the picture. */
  showExample() {
    this.draft = { ...structuredClone(this.example), model: this.draft.model };
    this.after = null;
    this.redrawAll();
    this.canvases[0].svg.focus({ preventScroll: true });
  }

  addStage(use) {
    if (!use) return; // the search found nothing
    const taken = new Set(this.draft.stages.map(({ slot }) => slot)), name = last(use).replace(/(?<=[a-z])(?=[A-Z])/g, "_").toLowerCase();
    let slot = name;
    for (let number = 2; taken.has(slot); number++) slot = `${name}_${number}`;
    const asking = this.draft.stages.findIndex((stage) => ASKING.test(stage.node.use));
    this.draft.stages.splice(asking < 0 ? this.draft.stages.length : asking, 0, { slot, node: { use }, on: true });
    this.restage();
  }

  /** Add or remove the stage that adds choices to the prompt, unless another stage does. */
  offerChoices() {
    const { choices, stages } = this.draft, use = "prompting.wording.MultipleChoice", own = stages.findIndex((stage) => stage.node.use === use);
    if (choices.length && !stages.some((stage) => stage.node.use.startsWith("prompting.wording."))) this.addStage(use);
    else if (!choices.length && own >= 0) {
      stages.splice(own, 1);
      this.redraw();
    }
  }

  /** Replace the pictures and their marks, or add to them. */
  async upload(files) {
    if (!files.length) return;
    await this.try(async () => {
      const names = [];
      for (const file of files) {
        const image = await this.talk.upload(file);
        this.images[image.name] = image;
        names.push(image.name);
      }
      this.begin();
      Object.assign(this.draft, this.$("beside").checked ? { images: [...this.draft.images, ...names] } : { images: names, marks: [] });
      this.redrawAll();
    });
  }

  removePicture(number) {
    const { draft } = this, rest = draft.marks.filter(({ image = 0 }) => image !== number);
    draft.marks = rest.map((mark) => (mark.image > number ? { ...mark, image: mark.image - 1 } : mark));
    draft.images.splice(number, 1);
    this.redrawAll();
  }

  // ---- the history of the page's content

  /** Start a new step. */
  begin() { this.isNewStep = true; }

  /** Remember the state before a step. */
  note() {
    const now = JSON.stringify(this.draft);
    if (now === this.present) return;
    if (this.isNewStep) this.undone.push(this.present);
    Object.assign(this, { present: now, isNewStep: false, redone: [] });
  }

  undo(from = this.undone, to = this.redone) {
    if (!from.length) return;
    to.push(this.present);
    this.present = from.pop();
    this.draft = JSON.parse(this.present);
    this.begin();
    this.redrawAll();
  }

  // ---- marks

  removeMark(number) {
    this.draft.marks.splice(number, 1);
    this.drawMarks();
  }

  drawMarks() {
    this.changed(); // first, because a notebook's marks may be impossible to draw
    this.canvases.forEach((canvas) => canvas.draw());
  }

  // ---- the page's content

  redrawAll() {
    const { draft } = this, isEmpty = !draft.images.length;
    this.$("empty").hidden = !isEmpty;
    if (isEmpty) this.$("time").textContent = "";
    for (const id of ["tools", "sent", "marks"]) this.$(id).hidden = isEmpty;
    if (!same(this.canvases.map(({ image }) => image.name), draft.images)) {
      this.canvases = draft.images.map((name, number) => (this.kept[`${number} ${name}`] ??= new Canvas(this.images[name], number, this)));
      this.$("canvases").replaceChildren(...this.canvases.map(({ box }) => box));
    }
    this.canvases.forEach((canvas) => canvas.draw());
    this.$("question").value = draft.question;
    this.$("choices").value = draft.choices.map((choice) => (choice.image ? `image: ${choice.image}` : choice)).join("\n");
    this.$("key").value = draft.answer ?? "";
    this.$("draws").value = draft.draws;
    this.$("model").value = draft.model;
    this.restage();
  }

  /** Redraw the cards, keeping the focus. */
  redraw() {
    const cards = this.$("cards"), focused = this.root.ownerDocument.activeElement, name = cards.contains(focused) && (focused.id || focused.ariaLabel);
    cards.replaceChildren(...stageCards(this));
    if (name) [...cards.querySelectorAll("[id], [aria-label]")].find((part) => part.id === name || part.ariaLabel === name)?.focus({ preventScroll: true });
  }

  restage() {
    this.redraw();
    this.changed();
  }

  /** Render after a change, once the render request in flight has ended. */
  async changed() {
    this.moved ||= performance.now();
    this.isWanted = true;
    this.note();
    if (this.after >= this.draft.stages.length) this.after = null;
    const { ownerDocument } = this.root;
    if (!ownerDocument.activeElement?.matches("#marks input")) this.$("marks").replaceChildren(...markList(this)); // unless a label is being typed
    if (this.undone.length && ownerDocument.activeElement === ownerDocument.body) this.root.focus({ preventScroll: true }); // the pressed element is gone; keep Ctrl-Z working
    this.$("strip").classList.toggle("past", this.along !== this.asked);
    this.$("plain").hidden = !(this.draft.each.length || Object.keys(this.draft.sweep).length);
    this.dimRows();
    this.tellArms();
    if (this.isOnItsWay) return;
    this.isOnItsWay = true;
    this.count(1);
    while (this.isWanted) {
      const since = this.moved;
      this.isWanted = false;
      this.moved = 0;
      if (!this.draft.images.length) continue;
      const shown = await this.try(() => this.talk.post("render", { draft: this.draft, after: this.after }));
      this.root.dataset.stale = shown ? "" : "1"; // the earlier state stays visible
      if (shown) await this.show(shown, since);
    }
    this.isOnItsWay = false;
    this.count(-1);
  }

  /** Count the requests in flight. */
  count(by) {
    this.atWork += by;
    this.root.dataset.busy = this.atWork ? "1" : "";
  }

  /** Do some work and return its result; show faults at the top and at their places, or all at `where`, and keep the earlier state. */
  async try(work, where = "") {
    let faults = [], made = null;
    this.count(1);
    try {
      made = await work();
      faults = made?.faults ?? [];
    } catch (error) {
      faults = error.faults || [String(error)];
    }
    const tell = (place, words) => place.replaceChildren(...breakable(words));
    const rest = faults.length > 1 ? ` (and ${faults.length - 1} more)` : "";
    tell(this.$("wrong"), faults.slice(0, 1).join("") + rest);
    for (const place of this.root.querySelectorAll("[data-fault]")) {
      const own = where ? faults.filter(() => place.dataset.fault === where) : faults.filter((fault) => `${/^(?:`|the )?(question|choices|answer|draws)\b/.exec(fault)?.[1] ?? fault.split(":")[0]}.`.startsWith(`${place.dataset.fault}.`));
      tell(place, own.join("\n"));
      faults = faults.filter((fault) => !own.includes(fault));
    }
    tell(this.$("faults"), faults.join("\n"));
    this.count(-1);
    return made;
  }

  async show(shown, since) {
    const { stages } = this.draft;
    const figures = shown.views.map((view, number) => {
      const src = this.talk.picture(view.sha);
      const image = el("img", { src, alt: `view ${number + 1}`, ...sized(view) });
      const told = `view ${number + 1}: ${view.width} x ${view.height} px, ${view.bytes.toLocaleString("en")} bytes ${view.kind}, sha256 `;
      const name = el("a", { href: this.talk.picture(view.sha), download: `${view.sha.slice(0, 12)}.${view.kind}`, title: view.sha }, view.sha.slice(0, 12));
      return el("figure", { "data-sha": view.sha }, image, el("figcaption", {}, told, name, view.note ? `, ${view.note}` : ", the original bytes"));
    });
    await Promise.all(figures.map((figure) => figure.firstChild.decode().catch(() => null)));
    this.$("views").replaceChildren(...figures);
    this.$("sent-title").textContent = (this.after === null && shown.words[0].role !== "prompt" ? "What is sent" : "Prepared so far")
      + (shown.arms > 1 ? `: ${shown.arms} arms; shown: the current cards` : "");
    let views = 0;
    const turns = shown.words.filter(({ role }) => role !== "assistant").map(({ role, parts }) => [`[${role}]`, ...parts.map((text) => text ?? `[view ${++views}]`)].join("\n"));
    this.$("words").replaceChildren(...turns.map((text) => el("div", { class: "turn", tabindex: "0" }, text)));
    this.$("notes").replaceChildren(...shown.notes.map((note) => el("li", {}, note)));
    this.$("amount").textContent = shown.amount + (shown.answer ? `; the stages give the answer ${shown.answer}` : "");
    if (this.root.ownerDocument.activeElement !== this.$("yaml")) this.$("yaml").value = shown.yaml;
    Object.assign(this.$("after"), { max: stages.length, value: this.after ?? stages.length });
    this.$("after-name").textContent = this.after === null ? "all" : this.after ? stages[this.after - 1].slot : "none";
    const seen = performance.now() - since;
    this.$("time").textContent = `rendered in ${seen.toFixed(0)} ms`;
    this.root.dataset.seen = seen;
    this.root.dispatchEvent(new Event("shown"));
  }

  // ---- asking

  async ask() {
    this.$("ask").disabled = true;
    const { question } = this, stages = structuredClone(this.draft.stages.filter(({ on }) => on));
    const rows = await this.try(() => this.talk.post("ask", { draft: this.draft }));
    const known = new Set(this.rows.map(sorted)), asked = (rows || []).map((row) => ({ ...row, stages, question }));
    this.rows.push(...asked.filter((row) => !known.has(sorted(row)))); // earlier requests have a row already
    this.$("ask").disabled = false;
    this.drawRows();
  }

  /** The question's parts as JSON, by name; rows of another question are dimmed. */
  get question() {
    const { stages, each, sweep, draws, ...question } = this.draft;
    return Object.fromEntries(Object.entries(question).map(([name, value]) => [name, sorted(value)]));
  }

  /** The question and stages of a strip. */
  get asked() { return sorted([this.question, this.draft.stages]); }

  /** The parts of the question in which a row differs. */
  others(row) {
    const { question } = this;
    return Object.keys(question).filter((name) => row.question[name] !== question[name]);
  }

  drawRows() {
    this.$("rows").replaceChildren(...this.rows.map((row) => el("li", {}, ...row.shas.map((sha) => el("img", { src: this.talk.picture(sha), alt: sha.slice(0, 12), title: sha })),
      el("b", {}, row.answer ?? "no answer"), " ", el("span", { class: row.verdict }, row.verdict === "hidden" ? "(no correct answer)" : row.verdict), row.why ? ` (${row.why})` : "", ` reply: ${row.reply} `,
      el("span", { class: "soft" }, [...this.differences(row), ...(row.draw ? [`draw ${row.draw + 1}`] : [])].join(", ")))));
    this.dimRows();
  }

  dimRows() {
    this.rows.forEach((row, n) => this.$("rows").children[n]?.classList.toggle("past", this.others(row).length > 0));
    const names = [...new Set(this.rows.flatMap((row) => this.others(row)))].map((name) => ({ images: "pictures", answer: "correct answer" }[name] ?? name));
    this.$("dimmed").textContent = names.length ? `dimmed rows differ in ${names.join(", ")}; "rows as each" leaves them out` : "";
    this.$("each").hidden = this.variants().size < 2;
  }

  /** The differences of a row from the others: its own value wherever two rows differ. */
  differences(row) {
    const [first] = this.rows, ofFirst = this.rows.map(({ stages }) => this.changesFrom(stages, first.stages));
    const own = Object.assign({}, ...ofFirst, this.changesFrom(first.stages, row.stages), row.changes);
    return [...this.wordsOf(own), ...Object.keys(first.question).filter((name) => row.question[name] !== first.question[name]).map((name) => `different ${name}`)];
  }

  /** Changes of a study in words: "mark.radius 9", "mark: Crosshairs, color yellow", "with zoom: ZoomOnMarks", "without zoom". */
  wordsOf(changes) {
    return Object.entries(changes).map(([place, value]) => {
      const [, slot, ...setting] = place.split(".");
      if (setting.length || !slot) return `${[slot, ...setting].join(".") || place} ${JSON.stringify(value)}`;
      if (!value) return `without ${slot}`;
      const { use, before, after, ...settings } = value, own = Object.entries(settings).map(([name, set]) => `, ${name} ${typeof set === "string" ? set : JSON.stringify(set)}`);
      return `${before || after ? "with " : ""}${slot}: ${last(use)}${own.join("")}`;
    });
  }

  /** Show which arms the study has besides the current stages. */
  tellArms() {
    const { each, sweep } = this.draft, more = each.map((changes, n) => `arm ${n + 2}: ${this.wordsOf(changes).join(", ")}`);
    this.$("arms").textContent = [...(each.length ? ["arm 1: the current cards"] : []), ...more, ...Object.entries(sweep).map(([place, values]) => `${place} ${values.join(", ")}`)].join("; ");
  }

  /** The distinct stages of the rows that were asked with the current question. */
  variants() {
    const own = this.rows.filter((row) => !Object.keys(row.changes).length && !this.others(row).length);
    return new Set(own.map(({ stages }) => sorted(stages)));
  }

  /** Ask along one slider: at its current value, with which the sweep begins, and at some over its range. */
  async askAlong(place, { min, max, step, now }) {
    const steps = [...Array(9).keys()].map((n) => Number((Math.round((min + (max - min) * n / 8) / step) * step).toFixed(4)));
    const values = [...new Set([now, ...steps])].filter((value) => value > 0 || min < 0).sort((a, b) => a - b);
    const sweep = { [place]: [...values.filter((value) => value === now), ...values.filter((value) => value !== now)] };
    const { asked } = this, rows = await this.try(() => this.talk.post("ask", { draft: { ...this.draft, draws: 1, sweep, each: [] } }));
    if (!rows) return;
    this.along = asked;
    this.drawStrip(place, values, values.map((value) => rows[sweep[place].indexOf(value)]), sweep);
  }

  drawStrip(place, values, rows, sweep) {
    this.$("strip").classList.toggle("past", this.along !== this.asked);
    const colors = ["#0072b2", "#d55e00", "#009e73", "#b0578f", "#8a6d00"], hasKey = rows.some(({ verdict }) => verdict === "right" || verdict === "wrong");
    const kinds = rows.map(({ verdict, answer }) => (hasKey ? verdict : answer ?? "no answer")), names = [...new Set(kinds)].sort();
    const number = (name) => (/^[A-Z]$/.test(name) ? name.charCodeAt(0) - 65 : names.indexOf(name)); // a letter has the same colour in every strip
    const color = (name) => `border-color: ${{ right: "var(--right)", wrong: "var(--wrong)" }[name] ?? colors[number(name) % colors.length]}`;
    const cells = rows.map((row, n) => el("div", { style: color(kinds[n]), title: `${row.reply} (${row.verdict})` }, el("b", { class: row.verdict }, row.answer ?? "–"), el("br"), String(values[n])));
    const legend = names.map((name) => el("span", { style: color(name) }, hasKey ? name : `answer ${name}`));
    const turns = rows.filter((row, n) => n && row.answer !== rows[n - 1].answer).length;
    this.$("strip").replaceChildren(el("h3", {}, `The answer along ${place}`), el("div", { class: "cells" }, ...cells), el("p", { class: "legend soft" }, ...legend),
      el("p", { class: "soft" }, turns ? `the answer changes ${turns === 1 ? "once" : `${turns} times`} over ${rows.length} values` : `the answer is the same at all ${rows.length} values`),
      el("button", { type: "button", id: "sweep", click: () => { this.draft.sweep = sweep; this.changed(); } }, "use as sweep"));
  }

  /** The changes of each variant against the first, in the form of a study's `each`. */
  changesOfRows() {
    const [first, ...others] = [...this.variants()].map((text) => JSON.parse(text));
    this.draft.stages = structuredClone(first);
    this.redraw();
    return others.map((stages) => this.changesFrom(first, stages));
  }

  changesFrom(first, stages) {
    const changes = {};
    for (const { slot, node } of first) {
      const changed = stages.find((stage) => stage.slot === slot)?.node;
      if (!changed) changes[`stages.${slot}`] = null;
      else if (changed.use !== node.use) changes[`stages.${slot}`] = changed;
      else for (const setting of this.forms[node.use]?.settings ?? []) {
        const { name } = setting;
        if (!same(changed[name], node[name])) changes[`stages.${slot}.${name}`] = changed[name] ?? setting.default;
      }
    }
    stages.forEach(({ slot, node }, number) => {
      if (first.some((stage) => stage.slot === slot)) return;
      changes[`stages.${slot}`] = number ? { ...node, after: stages[number - 1].slot } : { ...node, before: first[0].slot };
    });
    return changes;
  }

  // ---- the study

  async copy() {
    const field = this.$("yaml");
    try {
      await navigator.clipboard.writeText(field.value);
      this.$("copy").textContent = "copied";
    } catch { // in a notebook's frame, or without https
      field.select();
      this.$("faults").textContent = "the browser does not allow copying here; the study is selected, press Ctrl-C";
    }
    setTimeout(() => { this.$("copy").textContent = "copy"; }, 1500);
  }

  async read() {
    const text = this.$("yaml").value;
    await this.try(async () => {
      const { draft } = await this.talk.post("read", { draft: this.draft, text });
      if (text !== this.$("yaml").value) return; // the text has changed since
      const slotsOf = ({ stages }) => stages.map(({ slot }) => slot), isOther = !same(slotsOf(this.draft), slotsOf(draft));
      this.draft = draft;
      this.after = null;
      if (isOther) this.foldMany();
      this.redrawAll();
    }, "yaml");
  }

  async pack() {
    const packed = await this.try(() => this.talk.post("pack", { draft: this.draft }));
    if (!packed) return;
    const address = URL.createObjectURL(packed);
    el("a", { href: address, download: "studio.zip" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }
}
