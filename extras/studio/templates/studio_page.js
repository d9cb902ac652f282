"use strict";
// The page's connection to its server: pictures by address, all else as JSON, with a header that a form on another page cannot send.

async function answer(what, body) {
  const response = await fetch(what, { method: "POST", headers: { "X-Looktwice": "studio" }, body });
  const kind = response.headers.get("Content-Type") || "";
  const given = kind.startsWith("application/json") ? await response.json() : await response.blob();
  if (!response.ok) throw new Error(response.statusText);
  if (given.refused) throw Object.assign(new Error(), { faults: given.refused });
  return given;
}

const page = new Studio(document.getElementById("studio"), {
  get: async (what) => {
    const response = await fetch(what + location.search);
    return response.ok ? response.json() : Promise.reject(new Error(await response.text()));
  },
  post: (what, body) => answer(what, JSON.stringify(body)),
  upload: (file) => answer("upload", file),
  picture: (sha) => `picture/${sha}`,
});
page.start().catch((error) => { page.$("faults").textContent = error.message; })
  .finally(() => { document.documentElement.dataset.ready = "1"; });
