/* One socket carries hints {stream, seq}; the page then asks for its own fragments. A poll covers a dead socket. */
(() => {
  "use strict";
  const POLL_MS = 15_000;
  const DEBOUNCE_MS = 250;
  const LEAST_GAP_MS = 1000; // a burst of hints costs each region one request a second
  const STALE_MS = 40_000;
  const LONGEST_WAIT_MS = 30_000;
  const pending = new Map();
  const busy = new Set();
  let socket = null;
  let failures = 0;
  let lastGood = Date.now();

  const regions = () => [...document.querySelectorAll("[data-live]")];
  const status = (tone, word) => {
    const node = document.querySelector("[data-live-status]");
    if (!node) return;
    node.dataset.tone = tone;
    node.title = word;
    node.querySelector("[data-live-word]").textContent = word;
  };
  const stale = (on) => {
    const banner = document.querySelector("[data-stale]");
    if (!banner || banner.hidden !== on) return;
    banner.hidden = !on;
    banner.querySelector("[data-stale-since]").textContent = new Date(lastGood).toLocaleTimeString();
  };
  /* The server cannot be reached: input sent now would be lost, so deciding buttons are disabled meanwhile. */
  const lost = (on) => {
    if (on) status("danger", "Not connected");
    else if (socket?.readyState !== WebSocket.OPEN) status("warn", "Polling");
    for (const button of document.querySelectorAll("[data-decision] button, [data-claim] button")) {
      if (on && !button.disabled) button.dataset.lost = "";
      if (!("lost" in button.dataset)) continue;
      button.disabled = on;
      if (!on) delete button.dataset.lost;
    }
    if (on) stale(true);
  };
  const fresh = () => {
    lastGood = Date.now();
    lost(false);
    stale(false);
    document.dispatchEvent(new CustomEvent("dir:fresh"));
  };

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
  // What page.js writes into a time (words, title, tone), and a tick, are no change of what the server sent.
  const normal = (node) => node.innerHTML.replace(/<time\b[^>]*?datetime="([^"]*)"[^>]*>[^<]*<\/time>/g, "<time $1>").replace(/csrfmiddlewaretoken" value="[^"]*"/g, "").replace(/ checked(="")?(?=[\s>])/g, "").trim();

  const replace = (region, content) => {
    const next = document.createElement(region.tagName);
    next.append(content);
    region.dataset.liveSeen ??= normal(region); // what the page came with
    if (region.dataset.liveSeen === normal(next)) return;
    region.dataset.liveSeen = normal(next);
    if (region.querySelector(":popover-open, dialog[open]") || (region.contains(document.activeElement) && document.activeElement.matches("input, textarea, select"))) return;
    const focused = region.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const opened = [...region.querySelectorAll("details")].map((item) => item.open);
    region.replaceChildren(...next.childNodes);
    region.querySelectorAll("details").forEach((item, index) => (item.open = opened[index] ?? false));
    if (focused) region.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
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
      } else if (normal(old) !== normal(row) && !old.contains(document.activeElement)) {
        row.classList.toggle("here", old.classList.contains("here"));
        old.replaceWith(row.cloneNode(true));
      }
    }
    region.dataset.waiting = String(unseen);
    const pill = region.parentElement.querySelector("[data-pill]");
    if (!pill) return;
    if (unseen && pill.hidden) window.dirConsole?.announce(`${unseen} new`);
    pill.hidden = unseen === 0;
    pill.querySelector("[data-pill-count]").textContent = String(unseen);
  };
  const MODES = { replace, append, queue };

  const refresh = async (region) => {
    if (busy.has(region)) return pending.set(region, true);
    busy.add(region);
    try {
      const answer = await fetch(address(region), { headers: { "HX-Request": "true", "HX-Current-URL": location.href }, credentials: "same-origin" });
      if (answer.status === 401 && answer.headers.get("HX-Redirect")) return location.assign(answer.headers.get("HX-Redirect"));
      if (answer.status >= 502) return lost(true); // a proxy answers for a server that does not
      if (!answer.ok) throw new Error(String(answer.status));
      MODES[region.dataset.liveMode](region, parse(await answer.text()));
      fresh();
    } catch (error) {
      if (error instanceof TypeError) lost(true); // no answer at all
      else if (Date.now() - lastGood > STALE_MS) stale(true);
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
  const refreshAll = () => regions().forEach(soon);

  const hint = (message) => {
    lastGood = Date.now();
    const isTick = String(message.stream).startsWith("feed:"); // a price: only the ledger's page lists it
    for (const region of regions()) {
      const wanted = region.dataset.live;
      if (wanted === message.stream || (wanted === "*" && (!isTick || "liveFeeds" in region.dataset))) soon(region);
    }
  };

  const connect = () => {
    socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/live/`);
    socket.addEventListener("open", () => {
      refreshAll(); // hints arrive from now on, not from before
      failures = 0;
      status("ok", "Live");
    });
    socket.addEventListener("message", (event) => {
      lastGood = Date.now();
      if (event.data === "pong") return;
      try {
        hint(JSON.parse(event.data));
      } catch {
        refreshAll();
      }
    });
    socket.addEventListener("close", () => {
      failures += 1;
      status("warn", "Polling");
      refreshAll(); // checks at once whether the server still responds
      setTimeout(connect, Math.min(LONGEST_WAIT_MS, 500 * 2 ** Math.min(failures, 6)) * (0.75 + Math.random() / 2));
    });
  };

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-stale-retry]")) refreshAll();
    const pill = event.target.closest("[data-pill]");
    if (pill) void insert(pill);
  });
  const insert = async (pill) => {
    const region = pill.closest("div:has(> [data-queue])").querySelector("[data-queue]");
    const answer = await fetch(address(region), { headers: { "HX-Request": "true" }, credentials: "same-origin" });
    if (!answer.ok) return;
    const content = parse(await answer.text());
    const before = new Map([...region.querySelectorAll("[data-row]")].map((row) => [row.dataset.row, row]));
    const focused = document.activeElement;
    for (const row of [...content.querySelectorAll("[data-row]")]) {
      const old = before.get(row.dataset.row);
      old?.classList.remove("fresh");
      if (!old) row.classList.add("fresh");
      else if (normal(old) === normal(row) || old.contains(focused)) row.replaceWith(old); // it keeps its place and its marks
      else row.classList.toggle("here", old.classList.contains("here"));
    }
    region.replaceChildren(content);
    pill.hidden = true;
    if (region.contains(focused)) focused.focus({ preventScroll: true });
    else if (pill.contains(focused)) region.querySelector(".fresh a")?.focus({ preventScroll: true });
    window.htmx?.process(region);
    fresh();
  };

  const start = () => {
    if (!regions().length) return;
    connect();
    setInterval(() => {
      const quiet = Date.now() - lastGood;
      if (socket.readyState !== WebSocket.OPEN) refreshAll();
      else if (quiet > STALE_MS) socket.close(); // open, but nothing comes through
      else socket.send("ping");
      if (quiet > STALE_MS) stale(true);
    }, POLL_MS);
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") refreshAll();
    });
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
