"use strict";
// A notebook's connection: through the kernel, whose messages include the bytes of new pictures.

export default {
  render({ model, el: host }) {
    const root = el("div", { id: "studio" }), waiting = new Map(), addresses = new Map();
    root.innerHTML = BODY;
    host.append(root);
    const send = (what, body, buffers = []) => new Promise((resolve, reject) => {
      const number = waiting.size;
      waiting.set(number, { resolve, reject });
      model.send({ number, what, body }, undefined, buffers);
    });
    const take = ({ number, answer, faults, pictures }, buffers) => {
      pictures.forEach(([sha, type], n) => addresses.set(sha, URL.createObjectURL(new Blob([buffers[n]], { type }))));
      if (faults) waiting.get(number).reject(Object.assign(new Error(), { faults }));
      else waiting.get(number).resolve(answer ?? new Blob([buffers[pictures.length]], { type: "application/zip" }));
    };
    model.on("msg:custom", take);
    const studio = new Studio(root, {
      get: (what) => send(what), post: send, picture: (sha) => addresses.get(sha) || "",
      upload: async (file) => send("upload", null, [await file.arrayBuffer()]),
    });
    const tell = () => {
      for (const [name, value] of [["marks", studio.draft.marks], ["stages", studio.draft.stages], ["yaml", studio.$("yaml").value]]) model.set(name, structuredClone(value));
      model.save_changes();
    };
    const hear = () => {
      const given = { marks: model.get("marks"), stages: model.get("stages") };
      if (same(given, { marks: studio.draft.marks, stages: studio.draft.stages })) return;
      studio.begin();
      Object.assign(studio.draft, structuredClone(given));
      studio.drawMarks(); // also reports faults of the marks
      studio.redraw();
    };
    root.addEventListener("shown", tell);
    model.on("change:marks", hear);
    model.on("change:stages", hear);
    const started = studio.start();
    return () => { model.off("msg:custom", take); for (const address of addresses.values()) URL.revokeObjectURL(address); return started; };
  },
};
