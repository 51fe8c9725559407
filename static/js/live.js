/* One socket carries hints {stream, seq}; the page then asks for its own fragments. connection.js says whether
   the server answers, opens the socket again, and asks for all parts where there is no socket. */
(() => {
  "use strict";
  const { normal, follow, isBusy, merge } = window.dirRows;
  const DEBOUNCE_MS = 250;
  const LEAST_GAP_MS = 1000; // a burst of hints costs each region one request a second
  const ANSWER_MS = 10_000;
  const pending = new Map();
  const busy = new Set();
  const connection = window.dirConnection;
  let socket = null;

  const regions = () => [...document.querySelectorAll("[data-live]")];
  /* A part that comes with the answer of another does not ask for itself. */
  const asking = () => {
    const all = regions();
    const brought = new Set(all.flatMap((region) => region.dataset.liveBrings?.split(" ") ?? []));
    return all.filter((region) => !brought.has(region.dataset.livePart));
  };
  const fresh = () => connection.fresh();

  const address = (region) => {
    const url = new URL(region.dataset.liveUrl, location.href);
    if (region.dataset.liveCursor) url.searchParams.set("after", region.dataset.liveCursor);
    if (region.dataset.liveMode === "queue") {
      const ids = [...region.querySelectorAll("[data-row][data-open='1']")].map((row) => row.dataset.row);
      if (ids.length && region.classList.contains("queue")) url.searchParams.set("have", ids.slice(0, 200).join(","));
    }
    return url;
  };

  const parse = (html) => {
    const holder = document.createElement("template");
    holder.innerHTML = html.trim();
    return holder.content;
  };
  /* A way to give the focus back: to the link with the same target, or to the button with the same words. */
  const keepFocus = (region) => {
    const node = document.activeElement;
    if (!region.contains(node)) return () => {};
    const key = (item) => item.getAttribute("href") ?? item.textContent.trim();
    const alike = () => [...region.querySelectorAll(node.tagName)].filter((item) => key(item) === key(node));
    const place = alike().indexOf(node);
    return () => (alike()[place] ?? alike()[0])?.focus({ preventScroll: true });
  };
  const replace = (region, content) => {
    const next = document.createElement(region.tagName);
    next.append(content);
    region.dataset.liveSeen ??= normal(region); // what the page came with
    if (region.dataset.liveSeen === normal(next)) return;
    if (region.querySelector(":popover-open, dialog[open]") || (region.contains(document.activeElement) && document.activeElement.matches("input, textarea, select"))) return; // shown at a later refresh
    region.dataset.liveSeen = normal(next);
    const focusAgain = keepFocus(region);
    const opened = [...region.querySelectorAll("details")].map((item) => item.open);
    region.replaceChildren(...next.childNodes);
    region.querySelectorAll("details").forEach((item, index) => (item.open = opened[index] ?? item.open));
    focusAgain();
    window.htmx?.process(region);
  };

  const append = (region, content) => {
    const known = Number(region.dataset.liveCursor || 0);
    for (const item of [...content.children]) {
      if (Number(item.dataset.cursor) <= known) continue;
      item.classList.add("fresh");
      region.append(item);
      region.dataset.liveCursor = item.dataset.cursor;
    }
    window.htmx?.process(region);
  };

  /* Rows never jump: known ones change in place, new ones wait behind the pill. */
  const queue = (region, content) => {
    const rows = new Map([...content.querySelectorAll("[data-row]")].map((row) => [row.dataset.row, row]));
    let unseen = 0;
    if (rows.size && !region.querySelector("[data-row]")) return replace(region, content); // nothing can jump
    for (const [id, row] of rows) {
      const old = region.querySelector(`[data-row="${CSS.escape(id)}"]`);
      if (!old) {
        if (row.dataset.open === "1") unseen += 1;
      } else if (normal(old) !== normal(row) && !isBusy(old)) old.replaceWith(follow(row.cloneNode(true), old));
    }
    for (const part of content.querySelectorAll("[data-group] > [data-part]")) {
      const old = region.querySelector(`[data-part="${CSS.escape(part.dataset.part)}"]`);
      if (old && normal(old) !== normal(part) && !isBusy(old)) old.replaceWith(part.cloneNode(true));
    }
    region.dataset.waiting = String(unseen);
    const pill = region.parentElement.querySelector("[data-pill]");
    if (!pill) return;
    if (unseen && pill.hidden) window.dirConsole?.announce(`${unseen} new`);
    pill.hidden = unseen === 0;
    pill.querySelector("[data-pill-count]").textContent = String(unseen);
  };
  const MODES = { replace, append, queue };
  const unpack = (content) => {
    for (const part of content.querySelectorAll("template[data-live-part]")) {
      part.remove();
      const region = regions().find((item) => item.dataset.livePart === part.dataset.livePart);
      if (region) MODES[region.dataset.liveMode](region, part.content);
    }
    return content;
  };

  const ask = async (region) => {
    const since = Date.now();
    const headers = { "HX-Request": "true", "HX-Current-URL": location.href };
    try {
      const answer = await fetch(address(region), { headers, credentials: "same-origin", signal: AbortSignal.timeout(ANSWER_MS) });
      const html = await answer.text();
      if (answer.status < 502) connection.answered(since);
      return [answer, html];
    } catch {
      return [null, ""];
    }
  };
  /* Ask for a region, and `put` what comes where it belongs. */
  const load = async (region, put) => {
    const [answer, html] = await ask(region);
    if (!answer || answer.status >= 502) return connection.unanswered(); // a proxy may answer for a stopped server
    const place = answer.status === 401 && answer.headers.get("HX-Redirect");
    if (place) return window.dirConsole.signIn(place);
    if (!answer.ok) return connection.failed();
    put(unpack(parse(html)));
    fresh();
  };
  const refresh = async (region) => {
    if (busy.has(region)) return pending.set(region, true);
    busy.add(region);
    try {
      await load(region, (content) => MODES[region.dataset.liveMode](region, content));
    } finally {
      busy.delete(region);
      if (pending.delete(region)) soon(region);
    }
  };
  const timers = new Map();
  const askedAt = new WeakMap();
  const soon = (region) => {
    if (timers.has(region)) return;
    const since = Date.now() - (askedAt.get(region) ?? 0);
    const ask = () => {
      timers.delete(region);
      askedAt.set(region, Date.now());
      if (region.isConnected) void refresh(region);
    };
    timers.set(region, setTimeout(ask, Math.max(DEBOUNCE_MS, LEAST_GAP_MS - since)));
  };
  const refreshAll = () => asking().forEach(soon);

  const hint = (message) => {
    const isTick = String(message.stream).startsWith("feed:"); // a price: only the ledger's page lists it
    for (const region of asking()) {
      const wanted = region.dataset.live;
      if (wanted === message.stream || (wanted === "*" && (!isTick || "liveFeeds" in region.dataset))) soon(region);
    }
  };

  const isOpen = () => socket?.readyState === WebSocket.OPEN;
  /* `anew`: one that is silent is given up. */
  const reopen = (anew) => {
    if (!anew && (isOpen() || socket?.readyState === WebSocket.CONNECTING)) return;
    const old = socket;
    let wasOpen = false;
    const own = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/live/`);
    socket = own;
    old?.close();
    own.addEventListener("open", () => {
      wasOpen = true;
      refreshAll(); // hints arrive from now on, not from before
      connection.heard();
    });
    own.addEventListener("message", (event) => {
      if (own !== socket) return;
      connection.heard();
      if (event.data === "pong") return;
      try {
        hint(JSON.parse(event.data));
      } catch {
        refreshAll();
      }
    });
    own.addEventListener("close", () => {
      if (own === socket) connection.closed(wasOpen);
    });
  };

  document.addEventListener("dir:refresh", refreshAll); // a script of the page knows that something is over
  document.addEventListener("click", (event) => {
    const pill = event.target.closest("[data-pill]");
    if (pill) void insert(pill);
  });
  const insert = (pill) => {
    const region = pill.closest("div:has(> [data-queue])").querySelector("[data-queue]");
    return load(region, (content) => {
      const focused = document.activeElement;
      merge(region, content);
      pill.hidden = true;
      if (region.contains(focused)) focused.focus({ preventScroll: true });
      else if (pill.contains(focused)) region.querySelector(".fresh a")?.focus({ preventScroll: true });
      window.htmx?.process(region);
    });
  };

  const start = () => {
    if (!regions().length) return;
    connection.start({ isOpen, reopen, refreshAll, send: (text) => socket.send(text) });
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") refreshAll();
    });
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
