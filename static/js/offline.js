/* The notice stands at the address of the page that was asked for: loaded again, that page comes. */
(() => {
  "use strict";
  const EVERY_MS = 5000;
  const { notice, health, home } = document.body.dataset;
  const again = () => {
    if (location.pathname === notice) location.replace(home);
    else location.reload();
  };
  const ask = async () => {
    if (document.hidden || !navigator.onLine) return;
    try {
      const answer = await fetch(health, { cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(EVERY_MS) });
      if (answer.ok) again();
    } catch {
      /* not yet */
    }
  };
  addEventListener("online", again);
  document.querySelector("[data-try]").addEventListener("click", (event) => {
    event.preventDefault();
    again();
  });
  setInterval(() => void ask(), EVERY_MS);
})();
