/* Input of the decision form stays in this tab until it is accepted: across a new revision, a password
   confirmation or a lost connection. Actions, statements and retyped amounts are never kept. */
(() => {
  "use strict";
  const page = document.querySelector("[data-escalation]");
  if (!page) return;
  const key = `draft:${page.dataset.user}:${page.dataset.escalation}`;
  const form = document.querySelector("[data-decision]");
  const store = (value) => {
    try {
      if (value) sessionStorage.setItem(key, JSON.stringify(value));
      else sessionStorage.removeItem(key);
    } catch {
      /* no storage in this browser: the server still returns what it was sent */
    }
  };
  const stored = () => {
    try {
      return JSON.parse(sessionStorage.getItem(key));
    } catch {
      return null;
    }
  };
  window.dirDrafts = { forget: () => store(null) };
  if (!form) return store(null); // it is decided

  const fields = [...form.querySelectorAll("textarea[name], [data-param]")];
  const initial = (field) => field.dataset.proposed ?? "";
  const save = () => {
    const typed = fields.filter((field) => field.value !== initial(field)).map((field) => [field.name, field.value]);
    store(typed.length ? { asked: page.dataset.asked, revision: page.dataset.revision, typed: Object.fromEntries(typed) } : null);
  };
  const mark = (revision) => {
    const note = form.querySelector("[data-draft-note]");
    if (!note || revision === page.dataset.revision) return;
    note.textContent = `You wrote this for revision ${revision}. Revision ${page.dataset.revision} is shown now.`;
    note.hidden = false;
  };
  const restore = (draft) => {
    let restored = false;
    for (const field of fields) {
      const text = draft.typed?.[field.name];
      const isSent = field.name === "question" && draft.asked !== page.dataset.asked;
      if (typeof text !== "string" || isSent || field.value !== initial(field)) continue;
      field.value = text;
      field.closest("details")?.setAttribute("open", "");
      restored = true;
    }
    if (restored) mark(draft.revision);
    if (restored) form.dispatchEvent(new Event("change"));
  };

  const draft = stored();
  if (draft) restore(draft);
  form.addEventListener("input", save);
  form.addEventListener("change", save);
  form.addEventListener("submit", save);
  document.addEventListener("dir:revised", (event) => {
    if (fields.some((field) => field.value !== initial(field))) mark(event.detail);
  });
})();
