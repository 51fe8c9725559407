/* The decision form: labels its button, shows what MODIFY changes, and checks that required text is there. */
(() => {
  "use strict";
  const form = document.querySelector("[data-decision]");
  if (!form) return;
  const submit = form.querySelector("[data-submit]");
  const reason = form.elements.justification;
  const diff = form.querySelector("[data-param-diff]");
  const fields = [...form.querySelectorAll("[data-param]")];
  // Stating the effect of a call in doubt is more than stopping: that needs a reason.
  const knows = () => ["HAPPENED", "NOT_HAPPENED"].includes(form.querySelector("[name=effect]:checked")?.value);
  const chosen = () => form.querySelector("[name=action]:checked");
  const onlyStops = () => "stops" in (chosen()?.dataset ?? {}) && !knows();

  const name = () => {
    const action = chosen();
    if (!action) return;
    submit.textContent = action.dataset.button;
    submit.className = `btn wide after-choice ${"stops" in action.dataset ? "danger solid" : "primary"}`;
  };

  // An amount as the pages write it, so that a field of cents also shows what they are worth.
  const amount = (field, text) => {
    const { unit, shift, decimals } = field.dataset;
    const found = /^(-?)0*(\d+)(?:\.(\d+))?$/.exec(text.trim());
    if (!unit || !found) return text;
    const [, minus, digits, fraction = ""] = found;
    const all = digits.padStart(Number(shift) + 1, "0");
    const whole = all.slice(0, all.length - shift).replace(/\B(?=(\d{3})+$)/g, ",");
    let rest = `${all.slice(all.length - shift)}${fraction}`.replace(/0+$/, "");
    if (rest || Number(shift)) rest = rest.padEnd(Number(decimals), "0");
    return `${minus}${whole}${rest && "."}${rest} ${unit}`;
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
    row.append(part(`${label}:`, "label"), part(amount(field, field.dataset.proposed) || "not set", "from"), part("→", "arrow"), part(amount(field, field.value) || "not set", "yours"));
    return row;
  };
  // Leaving a field fires "change" again: keep what is shown, or a click on it would miss its button.
  let compared = "";
  const compare = () => {
    const now = fields.map((field) => field.value).join("\n");
    if (!diff || compared === now) return;
    compared = now;
    for (const field of fields) {
      const shown = field.closest(".field").querySelector("[data-amount]");
      if (shown) shown.textContent = amount(field, field.value);
    }
    const changed = fields.filter((field) => field.value !== field.dataset.proposed);
    fields.forEach((field) => field.classList.toggle("changed", changed.includes(field)));
    diff.replaceChildren(...changed.map(line));
    diff.hidden = changed.length === 0;
  };

  const complain = (text, words) => {
    const field = text.closest(".field");
    const said = field.querySelector(".wrong") ?? field.appendChild(document.createElement("span"));
    said.className = "wrong";
    said.id = `${text.id}-wrong`;
    said.textContent = words;
    text.setAttribute("aria-invalid", "true");
    text.setAttribute("aria-describedby", said.id);
    text.focus();
    said.scrollIntoView({ block: "nearest" });
    window.dirConsole?.announce(words);
  };
  // A dry-run result is valid for its input only: remove it, with its buttons, after any change.
  const answer = form.querySelector("#dry-run");
  const old = form.querySelector("[data-dry-run-old]");
  const json = form.elements.params;
  const state = () => JSON.stringify([...fields, json].map((field) => field?.value));
  let asked = state();
  const forget = () => {
    if (!answer?.childElementCount || state() === asked) return;
    answer.replaceChildren();
    old.hidden = false;
  };
  const put = (offer) => {
    const field = fields.find((one) => one.name === offer.dataset.putIn);
    if (json.value.trim() || !field) return; // the server puts it into the text
    field.value = offer.dataset.value;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    return true;
  };
  const ask = () => form.querySelector("[data-dry-run]").click();
  form.addEventListener("click", (event) => {
    const offer = event.target.closest("[data-put-in]");
    if (!offer || !put(offer)) return;
    event.preventDefault();
    ask();
  });
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.target.matches("[data-dry-run]")) asked = state();
  });
  // The result appears in a scrolling part, under a fixed footer.
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.target !== answer) return;
    old.hidden = true;
    forget();
    answer.scrollIntoView({ block: "center" });
  });

  form.addEventListener("change", () => {
    name();
    compare();
  });
  form.addEventListener("input", () => {
    compare();
    forget();
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches("input")) event.preventDefault();
  });
  form.addEventListener("submit", (event) => {
    if (event.submitter !== submit) return;
    const asks = chosen()?.dataset.parts.split(" ").includes("question");
    const text = asks ? form.elements.question : reason;
    const least = asks ? 1 : Number(reason.dataset.least);
    if (!onlyStops() && text.value.trim().length < least) {
      event.preventDefault();
      complain(text, asks ? "Write the question." : least > 1 ? `Write a reason of at least ${least} characters.` : "Write a reason.");
      return;
    }
    submit.disabled = true; // submit.js sends it, and enables the button after a refusal
  });
  name();
  compare();
})();
