/* Keys on a review: y and n choose, and never submit; Ctrl+Enter records. Single keys can be disabled (WCAG 2.1.4). */
(() => {
  "use strict";
  const form = () => document.querySelector("form[data-review]");

  const choose = (key) => {
    const choice = form()?.querySelector(`[data-choice="${key}"]`);
    if (!choice) return;
    choice.checked = true;
    form().querySelector("textarea").focus();
  };
  window.dirKeys.add({ y: () => choose("y"), n: () => choose("n") });

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.isComposing || event.repeat) return;
    if (!form() || document.querySelector(":popover-open, dialog[open]")) return;
    event.preventDefault();
    form().requestSubmit();
  });
})();
