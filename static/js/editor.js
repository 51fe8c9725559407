/* The editors of manifests, kinds and rulesets: a check that found something to correct is shown in place, too. */
(() => {
  "use strict";
  const isEditor = (event) => event.detail.target?.id === "editor";
  let focused = null;
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (!isEditor(event) || event.detail.xhr.status !== 422) return;
    event.detail.shouldSwap = true;
    event.detail.isError = false;
  });
  // The answer replaces the form: what is typed or pressed while it is on its way would be lost with it.
  document.addEventListener("htmx:beforeSend", (event) => {
    if (!isEditor(event)) return;
    focused = document.activeElement;
    event.detail.target.inert = true;
  });
  // Without an answer the same form is still there.
  document.addEventListener("htmx:afterRequest", (event) => {
    if (!isEditor(event)) return;
    event.detail.target.inert = false;
    if (focused?.isConnected) focused.focus();
  });
})();
