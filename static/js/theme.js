/* Runs before the first paint, so that a chosen theme never flashes the other one. */
(() => {
  "use strict";
  const KEY = "dir-theme";
  const ORDER = ["system", "light", "dark"];
  const WORDS = { system: "System", light: "Light", dark: "Dark" };
  const root = document.documentElement;

  const read = () => {
    try {
      const kept = localStorage.getItem(KEY);
      return ORDER.includes(kept) ? kept : "system";
    } catch {
      return "system";
    }
  };

  const apply = (theme) => {
    if (theme === "system") root.removeAttribute("data-theme");
    else root.dataset.theme = theme;
    for (const button of document.querySelectorAll("[data-theme-switch]")) {
      button.querySelector("[data-theme-word]").textContent = WORDS[theme];
      button.setAttribute("aria-label", `Theme: ${WORDS[theme]}. Change`);
    }
  };

  apply(read());
  document.addEventListener("DOMContentLoaded", () => apply(read()));
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-theme-switch]")) return;
    const next = ORDER[(ORDER.indexOf(read()) + 1) % ORDER.length];
    try {
      localStorage.setItem(KEY, next);
    } catch {
      /* A private window keeps no choice; it still applies to this page. */
    }
    apply(next);
  });
})();
