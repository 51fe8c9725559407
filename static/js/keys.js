/* Single keys for lists. They move and open; none decides. They can be disabled (WCAG 2.1.4). */
(() => {
  "use strict";
  const OFF = "dir-keys-off";
  const off = () => {
    try {
      return localStorage.getItem(OFF) === "1";
    } catch {
      return false;
    }
  };
  const rows = () => [...document.querySelectorAll("[data-queue] [data-row]")];
  const link = (row) => row.querySelector(".what > a, th a, a");
  const here = () => document.querySelector("[data-row].here") ?? document.activeElement?.closest?.("[data-row]");

  const move = (step) => {
    const all = rows();
    if (!all.length) return;
    const at = all.indexOf(here());
    const next = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + step))];
    all.forEach((row) => row.classList.toggle("here", row === next));
    link(next)?.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  };

  const claim = () => {
    const form = (here() ?? document).querySelector("[data-claim]");
    if (form) form.requestSubmit();
  };
  const ACTIONS = {
    j: () => move(1),
    k: () => move(-1),
    c: claim,
    n: () => document.querySelector("[data-pill]:not([hidden])")?.click(),
    "/": () => document.querySelector("[data-search]")?.focus(),
    "?": () => document.getElementById("keys-help")?.showModal(),
  };

  document.addEventListener("keydown", (event) => {
    if (off() && event.key !== "?") return;
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat && !"jk".includes(event.key)) return;
    if (event.target.closest("input, textarea, select, [contenteditable], dialog, [popover]")) return;
    if (event.key === "Enter") {
      const row = document.querySelector("[data-row].here");
      if (row && event.target === document.body) link(row)?.click();
      return;
    }
    const act = ACTIONS[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });

  document.addEventListener("focusin", (event) => {
    const row = event.target.closest?.("[data-row]");
    if (row) rows().forEach((item) => item.classList.toggle("here", item === row));
  });

  document.addEventListener("DOMContentLoaded", () => {
    const box = document.querySelector("[data-keys-off]");
    if (!box) return;
    box.checked = off();
    box.addEventListener("change", () => {
      try {
        localStorage.setItem(OFF, box.checked ? "1" : "0");
      } catch {
        /* Without storage the choice lasts as long as the page. */
      }
    });
  });
})();
