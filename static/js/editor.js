/* The editors of manifests and kinds: a check that found something to correct is shown in place, too. */
(() => {
  "use strict";
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target?.id !== "editor" || event.detail.xhr.status !== 422) return;
    event.detail.shouldSwap = true;
    event.detail.isError = false;
  });
})();
