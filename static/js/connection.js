/* Whether the server answers: Live, Slow, Polling or Not connected. live.js asks and carries what comes;
   what cannot be sent meanwhile is disabled, with the reason beside it. */
(() => {
  "use strict";
  const TICK_MS = 500;
  const BEAT_MS = 2000;
  const SLOW_MS = 2000; // an answer that takes longer
  const LOST_MS = 2900; // with the pause between two beats: five seconds after the last answer
  const SILENT_MS = 8000; // a socket that says nothing for so long is opened anew
  const STALE_MS = 40_000;
  const POLL_MS = 15_000;
  const FIRST_RETRY_MS = 500;
  const LONGEST_WAIT_MS = 10_000;
  const SENDS = "[data-decision] button, [data-claim] button, [data-claim-row], [data-bulk] button";
  const UNKNOWN = { isOpen: () => false, send() {}, reopen() {}, refreshAll() {} };
  let link = UNKNOWN;
  let heardAt = Date.now(); // anything came
  let freshAt = Date.now(); // a part of the page was brought up to date
  let askedAt = 0; // the oldest question without an answer
  let isUnanswered = false; // no answer over HTTP
  let unansweredAt = 0;
  let isStale = false;
  let beatAt = 0;
  let tickAt = Date.now();
  let failures = 0;
  let retryAt = 0;
  let shown = "";

  const page = document.documentElement;
  const clock = (at) => `${new Date(at).toISOString().slice(11, 19)} UTC`;
  const isLate = (limit) => askedAt > 0 && Date.now() - askedAt > limit;
  const state = () => {
    if (isUnanswered || isLate(LOST_MS)) return "lost";
    if (!link.isOpen()) return "polling";
    return isLate(SLOW_MS) ? "slow" : "live";
  };
  const WORDS = { lost: ["danger", "Not connected"], slow: ["warn", "Slow"], polling: ["warn", "Polling"], live: ["ok", "Live"] };

  const say = (name) => {
    const node = document.querySelector("[data-live-status]");
    if (!node) return;
    const [tone, word] = WORDS[name];
    node.dataset.tone = tone;
    node.title = word;
    node.querySelector("[data-live-word]").textContent = word;
  };
  const banner = (name) => {
    const node = document.querySelector("[data-stale]");
    if (!node) return;
    node.hidden = name !== "lost" && !isStale;
    if (node.hidden) return;
    const seconds = Math.max(0, Math.ceil((retryAt - Date.now()) / 1000));
    const parts = { word: name === "lost" ? "Not connected." : "This page may be out of date.", since: clock(heardAt), retry: seconds ? `retrying in ${seconds} s` : "retrying now" };
    for (const [part, text] of Object.entries(parts)) {
      const place = node.querySelector(`[data-stale-${part}]`);
      if (place.textContent !== text) place.textContent = text;
    }
  };
  /* What is sent now would be lost. */
  const hold = (on) => {
    for (const button of document.querySelectorAll(SENDS)) {
      if (on && !button.disabled) {
        button.dataset.lost = "";
        if (!button.closest("[data-decision]")) button.insertAdjacentHTML("afterend", '<span class="lost-why">Not connected</span>');
      }
      if (!("lost" in button.dataset)) continue;
      button.disabled = on;
      if (on) continue;
      delete button.dataset.lost;
      if (button.nextElementSibling?.matches(".lost-why")) button.nextElementSibling.remove();
    }
  };
  const show = () => {
    const name = state();
    banner(name);
    if (name === "lost" || shown === "lost") hold(name === "lost");
    if (name === shown) return;
    const before = shown;
    shown = name;
    page.dataset.connection = name; // page.js stops the countdowns of a lost one
    say(name);
    if (name === "lost") window.dirConsole?.announce("Not connected. Nothing can be sent; what you typed is kept.");
    else if (before === "lost") window.dirConsole?.announce("Connected again.");
  };

  const retry = () => {
    failures += 1;
    const wait = state() === "lost" ? Math.min(LONGEST_WAIT_MS, FIRST_RETRY_MS * 2 ** Math.min(failures, 6)) : POLL_MS;
    retryAt = Date.now() + wait * (0.75 + Math.random() / 2);
    link.reopen(Date.now() - heardAt > SILENT_MS);
    link.refreshAll();
  };
  const again = () => {
    failures = 0;
    retry();
    show();
  };
  const beat = () => {
    beatAt = Date.now();
    if (!link.isOpen()) return;
    askedAt ||= beatAt;
    link.send("beat");
  };
  const tick = () => {
    const now = Date.now();
    if (now - tickAt > LOST_MS) askedAt = 0; // this machine slept: the server has had no time to answer
    tickAt = now;
    if (document.visibilityState === "visible" && now - beatAt >= BEAT_MS) beat();
    if ((state() === "lost" || !link.isOpen()) && now >= retryAt) retry();
    show();
  };

  const heard = () => {
    heardAt = Date.now();
    askedAt = 0;
    if (!isUnanswered) failures = 0;
    show();
  };
  window.dirConnection = {
    /* `given` is the socket, and the way to ask for all parts of the page. */
    start(given) {
      link = given;
      link.reopen(false);
      retryAt = Date.now() + LONGEST_WAIT_MS;
      setInterval(tick, TICK_MS);
      setInterval(() => link.isOpen() && link.send("ping"), POLL_MS); // whether the session still holds
    },
    heard,
    /* A request that began at `since` was answered: the server is there, unless a later one was not. */
    answered(since) {
      if (since > unansweredAt) isUnanswered = false;
      heard();
    },
    fresh() {
      freshAt = Date.now();
      isStale = false;
      show();
      document.dispatchEvent(new CustomEvent("dir:fresh"));
    },
    unanswered() {
      isUnanswered = true;
      unansweredAt = Date.now();
      show();
    },
    failed() {
      isStale = Date.now() - freshAt > STALE_MS;
      show();
    },
    closed(wasOpen) {
      if (wasOpen) {
        askedAt = Date.now(); // the requests that go out now say whether the server is there
        retryAt = askedAt + FIRST_RETRY_MS;
        link.refreshAll();
      }
      show();
    },
    check() {
      if (shown === "lost") hold(true);
    },
  };

  window.addEventListener("online", again);
  window.addEventListener("offline", () => window.dirConnection.unanswered());
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState !== "visible") {
      askedAt = 0; // a hidden page asks seldom, and its clocks stand
      return;
    }
    if (shown === "lost") again();
    beat();
  });
  window.addEventListener("pageshow", (event) => event.persisted && again());
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-stale-try]")) again();
  });
})();
