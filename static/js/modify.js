/* The MODIFY part: asks the gate while a person types, and recalculates the amounts that nobody has touched. */
(() => {
  "use strict";
  const part = document.querySelector("[data-modify]");
  const form = part?.closest("form");
  const answer = part?.querySelector("#dry-run");
  if (!form || !answer) return;
  const PAUSE_MS = 400;
  const button = part.querySelector("[data-dry-run]");
  const old = part.querySelector("[data-dry-run-old]");
  const note = part.querySelector("[data-checking]");
  const json = form.elements.params;
  const fields = [...part.querySelectorAll("[data-param]")];
  // What the page came back with, or a draft has put in, a person has typed before.
  const touched = new Set(fields.filter((field) => field.value !== field.dataset.proposed));
  let timer = 0;
  let request = null;
  let putting = false;

  const say = (words) => {
    note.textContent = words;
    note.hidden = !words;
  };
  const stop = () => {
    clearTimeout(timer);
    request?.abort();
    request = null;
  };

  const unmark = (field) => {
    const id = `${field.id}-recalculated`;
    document.getElementById(id)?.remove();
    const others = (field.getAttribute("aria-describedby") ?? "").split(" ").filter((one) => one && one !== id);
    if (others.length) field.setAttribute("aria-describedby", others.join(" "));
    else field.removeAttribute("aria-describedby");
  };
  const mark = (field) => {
    unmark(field);
    const badge = document.createElement("span");
    badge.id = `${field.id}-recalculated`;
    badge.className = "badge recalculated";
    badge.dataset.tone = "info";
    badge.textContent = "recalculated";
    field.closest(".field").append(badge);
    field.setAttribute("aria-describedby", [field.getAttribute("aria-describedby"), badge.id].filter(Boolean).join(" "));
  };
  const put = (field, value) => {
    putting = true;
    field.value = value;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    putting = false;
    mark(field);
    const label = field.closest(".field").querySelector("label").textContent.trim();
    window.dirConsole?.announce(`${label} recalculated`);
  };
  // A parameter that was left out stays so: the runtime uses its own value then.
  const recalculate = () => {
    if (json.value.trim()) return false;
    const offers = [...answer.querySelectorAll("[data-put-in]")].map((offer) => ({ ...offer.dataset }));
    const due = offers
      .map(({ putIn, value }) => ({ field: fields.find((field) => field.name === putIn), value }))
      .filter(({ field, value }) => field?.value && field.value !== value && !touched.has(field));
    for (const { field, value } of due) put(field, value);
    old.hidden = true;
    return due.length > 0;
  };

  const isReadable = () => {
    try {
      return !json.value.trim() || typeof JSON.parse(json.value) === "object";
    } catch {
      return false;
    }
  };

  const ask = async (isAgain) => {
    stop();
    const mine = new AbortController();
    request = mine;
    try {
      const sent = await fetch(button.getAttribute("hx-post"), { method: "POST", body: new FormData(form), headers: { "HX-Request": "true" }, cache: "no-store", signal: mine.signal });
      const page = new DOMParser().parseFromString(await sent.text(), "text/html");
      if (request !== mine) return;
      if (!sent.ok || !page.querySelector(".finding")) throw new Error(`status ${sent.status}`);
      answer.replaceChildren(...page.body.childNodes);
      old.hidden = true;
      if (!isAgain && recalculate()) return void ask(true);
      say("");
    } catch {
      if (request === mine) say("Not checked: the server did not answer. Dry-run this change to try again.");
    }
  };

  // On the form, so that an outdated answer has been taken away before.
  form.addEventListener("input", (event) => {
    if (putting || !part.contains(event.target)) return;
    const field = event.target;
    if (fields.includes(field)) unmark(field);
    // A value that another script puts in is the runtime's own, taken by a click: it is checked by that click.
    if (!event.isTrusted) return;
    touched.add(field);
    stop();
    old.hidden = true;
    // A refusal is recorded, and half a text is none yet.
    if (!isReadable()) return say("The JSON is not complete yet.");
    say("Checking…");
    timer = setTimeout(() => void ask(false), PAUSE_MS);
  });
  // The button asks for itself.
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.target !== button) return;
    stop();
    say("");
  });
})();
