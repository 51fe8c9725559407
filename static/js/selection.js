/* Selecting rows of the queue, and which groups are folded. Nothing here decides. */
(() => {
  "use strict";
  const FOLDED = "dir-folded";
  const form = document.querySelector("[data-bulk]");
  if (!form) return;
  const words = form.querySelector("[data-selected]");
  const unselected = words?.textContent ?? "";

  const count = () => {
    const number = form.querySelectorAll("[name=escalation]:checked").length;
    const next = number ? `${number} selected` : unselected;
    if (words && words.textContent !== next) words.textContent = next;
  };
  form.addEventListener("change", (event) => {
    if (event.target.name === "escalation") count();
  });
  form.addEventListener("submit", (event) => {
    if (event.submitter?.name !== "action" || form.querySelector("[name=escalation]:checked")) return;
    event.preventDefault();
    words.textContent = "Select at least one row first.";
  });
  new MutationObserver(count).observe(form.querySelector("[data-queue]"), { childList: true, subtree: true });
  addEventListener("pageshow", count); // the browser may bring back what was selected before

  window.dirKeys.add({ x: () => window.dirKeys.here()?.querySelector("[name=escalation]")?.click() });

  const folded = () => {
    try {
      return new Set(JSON.parse(sessionStorage.getItem(FOLDED) ?? "[]"));
    } catch {
      return new Set(); // without storage a group stays folded as long as the page
    }
  };
  const shut = folded();
  for (const group of form.querySelectorAll("[data-group]")) if (shut.has(group.dataset.group)) group.open = false;
  form.addEventListener("toggle", (event) => {
    const key = event.target.dataset?.group;
    if (!key) return;
    const keys = folded();
    if (event.target.open) keys.delete(key);
    else keys.add(key);
    try {
      sessionStorage.setItem(FOLDED, JSON.stringify([...keys].slice(-50)));
    } catch {
      /* Without storage a group stays folded as long as the page. */
    }
  }, true);
  count();
})();
