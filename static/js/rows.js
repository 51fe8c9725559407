/* Compares and merges what the server sends with what is shown: a node that has not changed stays the same node. */
(() => {
  "use strict";
  // What page.js writes into a time (words, title, tone), and a tick, are no change of what the server sent.
  const normal = (node) => node.innerHTML.replace(/<time\b[^>]*?datetime="([^"]*)"[^>]*>[^<]*<\/time>/g, "<time $1>").replace(/csrfmiddlewaretoken" value="[^"]*"/g, "").replace(/ checked(="")?(?=[\s>])/g, "").trim();
  const isBusy = (node) => node.contains(document.activeElement) || (getSelection().type === "Range" && getSelection().containsNode(node, true));
  /* A changed row takes over what the person has marked on the old one. */
  const follow = (row, old) => {
    row.classList.toggle("here", old.classList.contains("here"));
    const box = row.querySelector("[name=escalation]");
    if (box) box.checked = Boolean(old.querySelector("[name=escalation]")?.checked);
    return row;
  };

  const keyOf = (node) => node.dataset.row ?? node.dataset.group ?? node.dataset.part ?? "";
  const keep = (old, node, known) => {
    if (!node.dataset.row && node.querySelector("[data-row]")) mergeInto(old, node, known);
    else if (normal(old) !== normal(node) && !(node.dataset.row && isBusy(old))) return follow(node, old);
    old.classList.remove("fresh");
    old.classList.toggle("alike", node.classList.contains("alike"));
    return old;
  };
  /* Moves only what is elsewhere: focus and selection do not survive a move. */
  const mergeInto = (parent, wanted, known) => {
    const keys = new Set([...wanted.children].map(keyOf));
    for (const node of [...parent.children]) if (!keys.has(keyOf(node))) node.remove();
    let at = parent.firstElementChild;
    for (const node of [...wanted.children]) {
      const isTwin = at && keyOf(node) === "" && keyOf(at) === "" && at.tagName === node.tagName;
      const old = isTwin ? at : known.get(keyOf(node));
      if (!old && node.dataset.row) node.classList.add("fresh");
      const kept = old ? keep(old, node, known) : node;
      if (old && old === at) {
        at = at.nextElementSibling;
        if (kept !== old) old.replaceWith(kept);
      } else {
        if (kept !== old) old?.remove();
        parent.insertBefore(kept, at);
      }
    }
    while (at) {
      const next = at.nextElementSibling;
      at.remove();
      at = next;
    }
  };
  const merge = (region, content) => {
    const keyed = [...region.querySelectorAll("[data-row], [data-group], [data-part]")];
    mergeInto(region, content, new Map(keyed.map((node) => [keyOf(node), node])));
  };
  window.dirRows = { normal, follow, isBusy, merge };
})();
