/* Single keys. They move, open and choose; none decides. They can be disabled (WCAG 2.1.4). */
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
  // Not those of a folded group.
  const rows = () => [...document.querySelectorAll("[data-queue] [data-row]")].filter((row) => row.checkVisibility());
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

  /* In the queue it is a button of the row; a decision page has a form. */
  const claim = () => {
    const row = here();
    if (row) row.querySelector("[data-claim-row]")?.click();
    else document.querySelector("[data-claim]")?.requestSubmit();
  };
  const ACTIONS = {
    j: () => move(1),
    k: () => move(-1),
    c: claim,
    n: () => document.querySelector("[data-pill]:not([hidden])")?.click(),
    "/": () => document.querySelector("[data-search]")?.focus(),
    "?": () => document.getElementById("keys-help")?.showModal(),
  };

  /* Keys of one page, by their name; those of its form work in the sheet that shows the form, and no others. */
  const OF_FORM = new Set();
  window.dirKeys = {
    here,
    add: (more) => Object.assign(ACTIONS, more),
    addOfForm(more) {
      Object.assign(ACTIONS, more);
      for (const key of Object.keys(more)) OF_FORM.add(key);
    },
  };
  const TYPING = "input:not([type=radio], [type=checkbox]), textarea, select, [contenteditable], dialog:not([data-sheet]), [popover]";
  // Where brackets are typed with AltGr, some systems say that Ctrl and Alt are held.
  const isHeld = (event) => !event.getModifierState("AltGraph") && (event.ctrlKey || event.metaKey || event.altKey);

  document.addEventListener("keydown", (event) => {
    if (off() && event.key !== "?") return;
    if (isHeld(event) || event.isComposing || event.repeat && !"jk".includes(event.key)) return;
    if (event.defaultPrevented || event.target.closest(TYPING)) return;
    if (event.key === "Enter") {
      const row = document.querySelector("[data-row].here");
      if (row && event.target === document.body) link(row)?.click();
      return;
    }
    const act = ACTIONS[event.key];
    if (!act || (event.target.closest("dialog") && !OF_FORM.has(event.key))) return;
    event.preventDefault();
    act();
  });

  document.addEventListener("focusin", (event) => {
    const row = event.target.closest?.("[data-row]");
    if (row) rows().forEach((item) => item.classList.toggle("here", item === row));
  });

  /* Back from a decision page: its address names the row. The browser takes the focus away when it scrolls there, so
     this waits until it has. */
  addEventListener("load", () => {
    if (!location.hash.startsWith("#row-")) return;
    const row = document.querySelector(`[data-row="${CSS.escape(location.hash.slice("#row-".length))}"]`);
    if (!row) return;
    link(row)?.focus({ preventScroll: true });
    row.scrollIntoView({ block: "center" });
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
