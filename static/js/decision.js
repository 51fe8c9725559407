/* The decision form: names its button, shows what MODIFY changes, and asks before it is left half done. */
(() => {
  "use strict";
  const form = document.querySelector("[data-decision]");
  if (!form) return;
  const submit = form.querySelector("[data-submit]");
  const reason = form.elements.justification;
  const diff = form.querySelector("[data-param-diff]");
  const fields = [...form.querySelectorAll("[data-param]")];
  const WORDS = {
    OVERRIDE: "Override: run it as proposed",
    MODIFY: "Modify: run it as changed",
    REQUEST_INFO: "Ask the agent",
    ABORT: "Abort: run nothing",
    RESUME: "Resume with the same key",
    MARK_DONE: "Mark as done",
    ACKNOWLEDGE: "Acknowledge the silence",
    STOP_AGENT: "Stop the agent",
  };
  const STOPS = ["ABORT", "STOP_AGENT"];
  const chosen = () => form.querySelector("[name=action]:checked")?.value;

  const name = () => {
    const action = chosen();
    if (!action) return;
    submit.textContent = WORDS[action] ?? "Record decision";
    submit.className = `btn wide after-choice ${STOPS.includes(action) ? "danger solid" : "primary"}`;
  };

  const line = (field) => {
    const row = document.createElement("div");
    row.className = "change";
    const part = (text, style) => {
      const node = document.createElement(style === "label" ? "b" : "span");
      node.className = style;
      node.textContent = text;
      return node;
    };
    const label = field.closest(".field").querySelector("label").textContent;
    row.append(part(`${label}:`, "label"), part(field.dataset.proposed || "not given", "from"), part("→", "arrow"), part(field.value || "not given", "yours"));
    return row;
  };
  const compare = () => {
    if (!diff) return;
    const changed = fields.filter((field) => field.value !== field.dataset.proposed);
    fields.forEach((field) => field.classList.toggle("changed", changed.includes(field)));
    diff.replaceChildren(...changed.map(line));
    diff.hidden = changed.length === 0;
  };

  form.addEventListener("change", () => {
    name();
    compare();
  });
  form.addEventListener("input", compare);
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches("input")) event.preventDefault();
  });
  form.addEventListener("submit", (event) => {
    if (event.submitter !== submit) return;
    const asks = chosen() === "REQUEST_INFO";
    const text = asks ? form.elements.question : reason;
    const least = asks ? 1 : Number(reason.dataset.least);
    if (!STOPS.includes(chosen()) && text.value.trim().length < least) {
      event.preventDefault();
      text.setAttribute("aria-invalid", "true");
      text.focus();
      window.dirConsole?.announce(asks ? "Write the question" : `Write a reason of at least ${least} characters`);
      return;
    }
    submit.disabled = true;
    window.addEventListener("pageshow", () => (submit.disabled = false), { once: true });
  });
  name();
  compare();
})();
