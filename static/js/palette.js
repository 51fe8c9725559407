/* Ctrl+K: search and go to. A combobox over the results of the search page; its links lead to pages and forms. */
(() => {
  "use strict";
  const WAIT_MS = 150;
  const dialog = document.getElementById("palette");

  /* A link to a form in a popover (`#stop-all`) opens it. Opening is all: the form is still to be sent. */
  const openNamed = () => {
    const named = document.getElementById(location.hash.slice(1));
    if (named?.popover && !named.matches(":popover-open")) named.showPopover();
  };
  // Not before the load: until then the browser looks for the place itself, and takes the focus away.
  window.addEventListener("load", () => requestAnimationFrame(openNamed));
  window.addEventListener("hashchange", openNamed);
  if (!dialog) return;

  const form = dialog.querySelector("form");
  const input = dialog.querySelector("[role=combobox]");
  const list = dialog.querySelector("[role=listbox]");
  const status = dialog.querySelector("[data-palette-status]");
  const options = () => [...list.querySelectorAll("[role=option]")];
  const chosen = () => list.querySelector("[aria-selected=true]");
  let timer = 0;
  let asked = null; // the request under way

  const choose = (option) => {
    chosen()?.setAttribute("aria-selected", "false");
    if (!option) return input.removeAttribute("aria-activedescendant");
    option.setAttribute("aria-selected", "true");
    input.setAttribute("aria-activedescendant", option.id);
    option.scrollIntoView({ block: "nearest" });
  };
  const show = (content, words) => {
    list.replaceChildren(...content);
    const all = options();
    input.setAttribute("aria-expanded", String(all.length > 0));
    status.textContent = words ?? (all.length ? `${all.length} found` : "Nothing found");
    choose(all[0]);
  };
  const ask = async () => {
    asked?.abort();
    const mine = (asked = new AbortController());
    const url = new URL(form.action);
    url.search = new URLSearchParams({ q: input.value, part: "palette" });
    try {
      const headers = { "HX-Request": "true", "HX-Current-URL": location.href };
      const answer = await fetch(url, { headers, signal: mine.signal });
      const place = answer.headers.get("HX-Redirect");
      if (place) {
        dialog.close(); // a page that says itself that the session is gone says it below
        return window.dirConsole.signIn(place);
      }
      if (!answer.ok) throw new Error(String(answer.status));
      const holder = document.createElement("template");
      holder.innerHTML = (await answer.text()).trim();
      if (asked !== mine) return;
      asked = null;
      show(holder.content.childNodes);
    } catch (error) {
      if (asked !== mine || error.name === "AbortError") return;
      asked = null;
      show([], "Not connected");
    }
  };
  const open = () => {
    if (dialog.open) return dialog.close();
    input.value = "";
    show([], "");
    dialog.showModal();
    input.focus();
    void ask();
  };

  document.addEventListener("keydown", (event) => {
    const isOurs = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k";
    if (!isOurs || event.isComposing) return;
    event.preventDefault();
    open();
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-palette]") || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    open();
  });

  input.addEventListener("input", () => {
    clearTimeout(timer);
    asked?.abort();
    asked = null;
    choose(null); // what is shown belongs to the text before
    timer = setTimeout(ask, WAIT_MS);
  });
  input.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    const all = options();
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!all.length) return;
      const at = all.indexOf(chosen());
      const step = event.key === "ArrowDown" ? 1 : -1;
      choose(all[at < 0 && step < 0 ? all.length - 1 : (at + step + all.length) % all.length]);
    } else if (event.key === "Enter" && chosen()) {
      event.preventDefault();
      chosen().click();
    } // without a choice the form leads to the search page
  });
  list.addEventListener("click", (event) => {
    if (event.target.closest("[role=option]") && !event.ctrlKey && !event.metaKey) dialog.close();
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  dialog.addEventListener("close", () => {
    clearTimeout(timer);
    asked?.abort();
    asked = null;
  });
})();
