/* Puts a refusal into the open decision page: what the server knows anew is replaced, what was typed stays. */
(() => {
  "use strict";
  const page = document.querySelector("[data-escalation]");
  if (!page) return;
  const form = () => document.querySelector("[data-decision]");

  const adopt = (node) => document.importNode(node, true);
  /* One notice at a time, above the form; where the form is gone, above the page. */
  const tell = (banner) => {
    document.getElementById("problem")?.remove();
    const place = document.querySelector("[data-problem-place]");
    if (place) place.replaceChildren(banner);
    else page.before(banner);
    banner.focus({ preventScroll: true });
    banner.scrollIntoView({ block: "nearest" });
  };
  const notice = (tone, title, words, link) => {
    const banner = document.createElement("div");
    const text = document.createElement("p");
    const bold = document.createElement("b");
    Object.assign(banner, { className: "banner", id: "problem", tabIndex: -1 });
    banner.dataset.tone = tone;
    banner.setAttribute("role", "alert");
    bold.textContent = title;
    text.append(bold, ` ${words}`);
    banner.append(text);
    if (link) {
      const anchor = document.createElement("a");
      Object.assign(anchor, { className: "btn primary", href: link.href, textContent: link.words });
      banner.append(anchor);
    }
    tell(banner);
  };

  const swap = (found) => {
    for (const old of document.querySelectorAll("[data-swap]")) {
      const next = found.querySelector(`[data-swap="${old.dataset.swap}"]`);
      if (!next) continue;
      const copy = adopt(next);
      old.replaceWith(copy);
      window.htmx?.process(copy);
    }
    const reason = found.querySelector("[name=justification]");
    if (reason) form().elements.justification.dataset.least = reason.dataset.least;
  };
  const revise = (found, now) => {
    if (now.dataset.hash === page.dataset.hash) return;
    const before = page.dataset.revision;
    for (const name of ["revision", "hash", "asked"]) page.dataset[name] = now.dataset[name];
    page.querySelector("[data-evidence]").replaceWith(adopt(found.querySelector("[data-evidence]")));
    window.htmx?.process(page.querySelector("[data-evidence]"));
    document.dispatchEvent(new CustomEvent("dir:revised", { detail: before }));
  };
  /* Somebody else was first: there is nothing left to decide. */
  const close = (now, banner) => {
    const written = form().elements.justification.value.trim();
    page.replaceChildren(...adopt(now).childNodes);
    document.querySelector("[data-swap=state]")?.remove();
    document.querySelector(".to-decide")?.remove();
    window.htmx?.process(page);
    window.dirDrafts?.forget();
    if (!written) return;
    const text = document.createElement("p");
    text.className = "small";
    text.textContent = `You had written: ${written}`;
    banner.firstElementChild.nextElementSibling?.append(text);
  };
  /* Show the page that a refused form was answered with; the code of the refusal, or "" if it is another page. */
  const show = (html) => {
    const found = new DOMParser().parseFromString(html, "text/html");
    const now = found.querySelector("[data-escalation]");
    const problem = found.getElementById("problem");
    if (!problem || now?.dataset.escalation !== page.dataset.escalation) return "";
    const banner = adopt(problem);
    if (found.querySelector("[data-decision]")) {
      revise(found, now);
      swap(found);
      form().dispatchEvent(new Event("change"));
    } else close(now, banner);
    document.dispatchEvent(new CustomEvent("dir:fresh"));
    tell(banner);
    return problem.dataset.code;
  };
  window.dirInPlace = { show, notice };
})();
