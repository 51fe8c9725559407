/* Keys of the decision page: letters choose an action and never send it; Ctrl+Enter sends. */
(() => {
  "use strict";
  const form = document.querySelector("[data-decision]");
  const announce = (words) => window.dirConsole?.announce(words);
  const radios = () => [...document.querySelectorAll("[data-decision] [name=action]")];
  const isSeen = (node) => node.getClientRects().length > 0;

  const headline = () => document.getElementById("s1") ?? document.querySelector("h1");
  const focus = (heading) => {
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
  };
  const arrive = () => {
    if (location.hash) return;
    const problem = document.getElementById("problem");
    if (problem) problem.focus();
    else focus(headline());
  };

  const first = (radio) => {
    const needed = ["typed_again", "receipt", "question"];
    if (!("stops" in radio.dataset)) needed.push("justification");
    const fields = [...form.querySelectorAll("[data-param][required], [name]")];
    return fields.find((field) => (field.required || needed.includes(field.name)) && isSeen(field) && !field.value.trim());
  };
  const choose = (radio) => {
    const label = radio.closest("label");
    if (radio.disabled) return announce(`${label.querySelector("b").firstChild.textContent.trim()}: ${label.querySelector(".hint").textContent.trim()}`);
    if (window.dirSheet && !window.dirSheet.reveal(radio)) return; // the evidence comes first
    radio.checked = true;
    radio.dispatchEvent(new Event("change", { bubbles: true }));
    (first(radio) ?? radio).focus();
  };
  const send = () => {
    const submit = form.querySelector("[data-submit]");
    if (!radios().some((radio) => radio.checked)) {
      announce("Choose an action first.");
      return radios().find((radio) => !radio.disabled)?.focus();
    }
    if ("lost" in submit.dataset) return announce("Not connected. Nothing can be sent; what you typed is kept.");
    if (!submit.disabled) form.requestSubmit(submit);
  };

  const follow = (selector, words) => {
    const link = document.querySelector(selector);
    if (link) link.click();
    else announce(words);
  };
  let section = 0;
  const nextSection = () => {
    const headings = [...document.querySelectorAll("[data-evidence] h2")].filter(isSeen);
    if (!headings.length) return;
    const at = headings.indexOf(document.activeElement);
    section = ((at < 0 ? section : at) + 1) % headings.length;
    focus(headings[section]);
    headings[section].scrollIntoView({ block: "start" });
  };
  const leave = () => {
    if (!document.querySelector(":popover-open, dialog[open], .side.open")) follow("[data-to-queue]", "");
  };

  window.dirKeys.add({
    "]": () => follow("[data-next]", "This is the last item of the queue."),
    "[": () => follow("[data-previous]", "This is the first item of the queue."),
    e: nextSection,
    Escape: leave,
  });
  // The letters of the form as it is now: a refusal may replace its choices.
  for (const { dataset } of radios()) {
    window.dirKeys.addOfForm({ [dataset.key]: () => choose(radios().find((radio) => radio.dataset.key === dataset.key)) });
  }
  document.addEventListener("keydown", (event) => {
    const isOfAnother = (event.target.closest("form") ?? form) !== form; // claiming, say
    if (!form?.isConnected || !event.target.closest("#decide") || isOfAnother || event.isComposing || event.repeat) return;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      send();
    } else if (event.key === "Escape" && event.target.matches("textarea, input:not([type=radio])")) {
      // The first leaves the field, a second the page.
      event.preventDefault();
      (form.querySelector("[name=action]:checked") ?? headline()).focus();
    }
  });
  arrive();
})();
