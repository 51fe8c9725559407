/* What every page does with its own marks: local times, countdowns, copying, menus. */
(() => {
  "use strict";
  const two = (n) => String(n).padStart(2, "0");
  const clock = (d) => `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
  const utcClock = (d) => d.toISOString().slice(11, 19);
  const localDay = (d) => `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;

  const span = (ms) => {
    const s = Math.max(0, Math.round(ms / 1000));
    if (s < 60) return `${s} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${two(Math.floor((s % 3600) / 60))} min`;
    return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
  };
  const coarse = (ms) => {
    const s = Math.max(0, Math.round(ms / 1000));
    if (s < 60) return `${s} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min`;
    if (s < 86400) return `${Math.floor(s / 3600)} h`;
    return `${Math.floor(s / 86400)} d`;
  };

  const set = (node, text) => {
    if (node.textContent !== text) node.textContent = text;
  };

  const showTime = (node, now) => {
    const at = new Date(node.dateTime);
    if (Number.isNaN(at.getTime())) return;
    const sameZone = at.getTimezoneOffset() === 0;
    const utc = `${at.toISOString().slice(0, 10)} ${utcClock(at)} UTC`;
    const local = `${localDay(at)} ${clock(at)}`;
    node.title = sameZone ? utc : `${local} local, ${utc}`;
    switch (node.dataset.time) {
      case "ago":
        set(node, `${coarse(now - at)} ago`);
        break;
      case "age":
        set(node, coarse(now - at));
        break;
      case "clock":
        set(node, sameZone ? `${utcClock(at)} UTC` : `${clock(at)} · ${utcClock(at)} UTC`);
        break;
      default:
        set(node, sameZone ? utc : `${local} · ${utcClock(at)} UTC`);
    }
  };

  const showCountdown = (node, now) => {
    const left = new Date(node.dateTime) - now;
    if (Number.isNaN(left)) return;
    node.title = `${new Date(node.dateTime).toISOString().slice(0, 19).replace("T", " ")} UTC`;
    set(node, left > 0 ? span(left) : "past due");
    node.dataset.tone = left < 60_000 ? "danger" : left < 300_000 ? "warn" : "idle";
  };

  const tick = () => {
    const now = Date.now();
    // While the server is away nobody knows whether a deadline was moved: what was last known stays, marked.
    const isKnown = document.documentElement.dataset.connection !== "lost";
    for (const node of document.querySelectorAll("time[data-countdown]")) if (isKnown) showCountdown(node, now);
    for (const node of document.querySelectorAll("time[data-time]")) showTime(node, now);
  };

  const copy = async (button) => {
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
    } catch {
      return announce(`Copying is not allowed here. The value is ${button.dataset.copy}`);
    }
    button.classList.add("done");
    announce("Copied");
    setTimeout(() => button.classList.remove("done"), 1200);
  };

  const announce = (words) => {
    const region = document.querySelector("[data-announce]");
    if (region) region.textContent = words;
  };

  /* The page may hold unsent text, and then says itself that the session is gone. */
  const signIn = (place) => {
    const event = new CustomEvent("dir:signed-out", { cancelable: true, detail: place });
    if (document.dispatchEvent(event)) location.assign(place);
  };

  const menu = (open) => {
    const side = document.getElementById("menu");
    if (!side) return;
    side.classList.toggle("open", open);
    if (open) side.querySelector("a").focus();
  };

  document.addEventListener("click", (event) => {
    const at = (selector) => event.target.closest(selector);
    if (at("[data-copy]")) void copy(at("[data-copy]"));
    else if (at("[data-menu]")) {
      event.preventDefault();
      menu(true);
    } else if (at("[data-menu-close]")) {
      event.preventDefault();
      menu(false);
    } else if (!at("#menu")) menu(false);
    if (at("[data-close-dialog]")) at("dialog").close();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") menu(false);
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-submit-on-change]")) event.target.form.requestSubmit();
  });
  document.addEventListener("DOMContentLoaded", tick);
  document.addEventListener("dir:fresh", tick);
  setInterval(tick, 1000);
  window.dirConsole = { announce, signIn, span };
})();
