/* The worker shows a notice when the server cannot be reached, and makes the console installable. Browsers allow it
   over HTTPS and on this machine only. */
(() => {
  "use strict";
  if (!window.isSecureContext || !("serviceWorker" in navigator)) return;
  const { worker } = document.currentScript.dataset;
  addEventListener("load", () => {
    navigator.serviceWorker.register(worker, { scope: "/", updateViaCache: "none" }).catch(() => {
      /* Private windows and some policies allow none: everything else works without it. */
    });
  });
})();
