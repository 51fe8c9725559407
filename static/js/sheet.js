/* Where the form is not beside the evidence it comes up as a sheet, once the evidence has been on the screen. The form
   is the one of the page, moved while the sheet is open. What only stops needs no evidence. Without script the bar
   is a link to the form. */
(() => {
  "use strict";
  const form = document.querySelector("[data-decision]");
  const sheet = document.querySelector("[data-sheet]");
  const bar = document.querySelector("[data-to-decide]");
  if (!form || !sheet || !bar) return;
  const MUST = ":scope > .case-head, :scope > .changed, :scope > [aria-labelledby='s2']";
  const ENOUGH = 0.8; // of the height of a section
  const wide = matchMedia("(min-width: 56.25rem)"); // as decision.css puts the two beside each other
  const decide = document.getElementById("decide");
  const title = document.getElementById("decide-title");
  const button = bar.querySelector("[data-sheet-decide]");
  const stop = bar.querySelector("[data-sheet-stop]");
  const note = bar.querySelector("[data-sheet-unread]");
  const warning = sheet.querySelector("[data-sheet-note]");
  const home = document.createElement("div"); // keeps the place and the height of the form, so that nothing scrolls
  let parts = new Map(); // each section that must be read, and which parts of its height were on the screen
  let isRevised = false;
  let opener = null;
  let place = null; // what a person looked at when the sheet came up, and how far below the top of the screen it was

  /* What lies between the two bars is what a person sees. */
  const room = () => {
    const top = Math.max(0, document.querySelector(".bar")?.getBoundingClientRect().bottom ?? 0);
    const isThere = bar.getClientRects().length > 0;
    return { top, bottom: isThere ? Math.min(innerHeight, bar.getBoundingClientRect().top) : innerHeight };
  };
  /* A line that comes or goes above keeps what is looked at where it is, and changes how far the page is scrolled. */
  const remember = () => {
    const { top, bottom } = room();
    const seen = [...document.querySelectorAll("[data-evidence] > *")].find((part) => part.getBoundingClientRect().bottom > top);
    const node = seen && seen.getBoundingClientRect().top < bottom ? seen : decide;
    place = { node, below: node.getBoundingClientRect().top };
  };
  const putBack = () => {
    if (place.node.isConnected) scrollBy({ top: place.node.getBoundingClientRect().top - place.below, behavior: "instant" });
  };
  const join = (ranges, from, to) => {
    const apart = ranges.filter(([start, end]) => end < from || start > to);
    const touching = ranges.filter((range) => !apart.includes(range));
    const joined = [Math.min(from, ...touching.map(([start]) => start)), Math.max(to, ...touching.map(([, end]) => end))];
    return [...apart, joined].sort(([one], [other]) => one - other);
  };
  const share = (ranges) => ranges.reduce((sum, [start, end]) => sum + end - start, 0);
  const firstGap = (ranges) => {
    let at = 0;
    for (const [start, end] of ranges) if (start <= at + 0.01) at = end;
    return at;
  };
  const unread = () => [...parts.keys()].filter((part) => part.isConnected && share(parts.get(part)) < ENOUGH);

  const name = (part) => {
    const words = [...(part.querySelector("h2")?.childNodes ?? [])].filter((node) => node.nodeType === Node.TEXT_NODE);
    return words.map((node) => node.data.trim()).join("") || "the evidence";
  };
  const why = (left) => `${isRevised ? "The evidence has changed. " : ""}Read first: ${left.map(name).join(", ")}.`;
  const render = () => {
    const left = unread();
    const isRead = left.length === 0;
    button.classList.toggle("primary", isRead);
    warning.hidden = isRead;
    note.hidden = isRead;
    const words = isRead ? "" : why(left.slice(0, 1)); // one after the other: the bar is small
    if (note.textContent === words) return;
    note.textContent = words;
    warning.querySelector("p").textContent = `${why(left)} Until then only ${stop?.textContent ?? "Abort"} can be sent.`;
  };
  const look = () => {
    if (document.hidden || document.querySelector("dialog[open], .side.open")) return;
    const { top, bottom } = room();
    for (const [part, ranges] of parts) {
      const box = part.getBoundingClientRect();
      const from = Math.max(top, box.top) - box.top;
      const to = Math.min(bottom, box.bottom) - box.top;
      if (to > from && share(ranges) < ENOUGH) parts.set(part, join(ranges, from / box.height, to / box.height));
    }
    render();
  };
  let frame = 0;
  const soon = () => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(look);
  };
  const appearing = new IntersectionObserver(look, { threshold: [0, 0.25, 0.5, 0.75, 1] });
  const begin = () => {
    appearing.disconnect();
    const evidence = document.querySelector("[data-evidence]");
    const found = [...evidence.querySelectorAll(MUST)];
    parts = new Map((found.length ? found : [evidence.firstElementChild]).map((part) => [part, []]));
    for (const part of parts.keys()) appearing.observe(part);
    render();
  };

  /* Each call shows a part that was not on the screen yet. */
  const lead = () => {
    const [part] = unread();
    if (!part) return;
    const box = part.getBoundingClientRect();
    scrollBy({ top: box.top + firstGap(parts.get(part)) * box.height - room().top - 12, behavior: "instant" });
    window.dirConsole?.announce(why([part]));
  };
  const open = () => {
    if (sheet.open) return;
    opener = bar.contains(document.activeElement) ? document.activeElement : button;
    remember();
    home.style.height = `${decide.offsetHeight}px`;
    decide.before(home);
    sheet.append(decide);
    title.tabIndex = -1;
    sheet.showModal();
    sheet.scrollTop = 0;
    title.focus({ preventScroll: true });
  };
  /* Whether the action may be chosen now; on a narrow page it is then in front of the person. */
  const reveal = (radio) => {
    if (wide.matches) return true;
    if (unread().length && !("stops" in (radio?.dataset ?? {}))) {
      if (sheet.open) warning.querySelector("button").focus();
      else lead();
      return false;
    }
    open();
    return true;
  };
  window.dirSheet = { reveal };

  button.addEventListener("click", () => reveal(form.querySelector("[name=action]:checked")));
  stop?.addEventListener("click", () => {
    const radio = form.querySelector("[name=action][data-stops]:not(:disabled)");
    open();
    if (!radio) return;
    radio.checked = true;
    radio.dispatchEvent(new Event("change", { bubbles: true }));
    radio.focus();
  });
  sheet.addEventListener("close", () => {
    if (!home.isConnected) return; // somebody else has decided: the form is gone
    home.replaceWith(decide);
    (opener?.getClientRects().length ? opener : title).focus({ preventScroll: true });
    putBack();
    soon();
  });
  warning.querySelector("button").addEventListener("click", () => {
    sheet.addEventListener("close", lead, { once: true }); // after the page was put back where it was
    sheet.close();
  });
  // Only a press that begins beside the sheet: text that is selected beyond its edge closes nothing.
  let isBeside = false;
  sheet.addEventListener("pointerdown", (event) => {
    const box = sheet.getBoundingClientRect();
    isBeside = event.target === sheet && (event.clientY < box.top || event.clientX < box.left || event.clientX > box.right);
  });
  sheet.addEventListener("click", () => {
    if (isBeside) sheet.close();
    isBeside = false;
  });
  /* Before decision.js and submit.js; also for the form at the end of the page. */
  document.addEventListener("submit", (event) => {
    const isDecision = event.target === form && (!event.submitter || event.submitter.matches("[data-submit]"));
    const action = form.querySelector("[name=action]:checked");
    if (!isDecision || wide.matches || !action || "stops" in action.dataset || !unread().length) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (sheet.open) warning.querySelector("button").focus();
    else lead();
  }, true);
  document.addEventListener("dir:revised", () => {
    isRevised = true;
    begin();
  });
  wide.addEventListener("change", () => {
    if (sheet.open) sheet.close();
    soon();
  });
  addEventListener("beforeprint", () => sheet.open && sheet.close());
  addEventListener("scroll", soon, { passive: true });
  addEventListener("resize", soon, { passive: true });
  document.addEventListener("visibilitychange", soon);
  /* A keyboard on the screen covers the lower part of the page, and the sheet goes above it. */
  window.visualViewport?.addEventListener("resize", () => {
    const { height, offsetTop, scale } = visualViewport;
    if (scale > 1.01) return; // pinched, which is no keyboard
    sheet.style.setProperty("--covered", `${Math.max(0, innerHeight - height - offsetTop)}px`);
  });
  /* At the end of the page the form itself is there. */
  new IntersectionObserver(([entry]) => bar.toggleAttribute("data-at-form", entry.isIntersecting && !sheet.open), { rootMargin: "0px 0px -40% 0px" }).observe(decide);

  bar.querySelector("[data-sheet-link]").hidden = true;
  button.hidden = false;
  if (stop) stop.hidden = false;
  begin();
})();
