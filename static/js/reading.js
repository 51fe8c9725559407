/* Says with the decision how long the page was in sight and which parts were opened or seen. The server notes it as
   reported by the browser, and decides nothing by it. */
(() => {
  "use strict";
  const form = document.querySelector("[data-decision]");
  if (!form) return;
  const panes = new Set();
  let visibleMs = 0;
  let since = document.hidden ? null : performance.now();
  const total = () => visibleMs + (since === null ? 0 : performance.now() - since);

  document.addEventListener("visibilitychange", () => {
    visibleMs = total();
    since = document.hidden ? null : performance.now();
  });
  document.addEventListener(
    "toggle",
    (event) => {
      const pane = event.target.closest?.("details[data-pane]");
      if (pane?.open) panes.add(pane.dataset.pane);
    },
    true,
  );
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) panes.add(entry.target.dataset.pane);
  });
  for (const part of document.querySelectorAll("section[data-pane]")) seen.observe(part);

  form.addEventListener("formdata", (event) => {
    const said = { visible_s: Math.round(total() / 1000), panes: [...panes].sort() };
    event.formData.set("client_reported", JSON.stringify(said));
  });
})();
