/* Draws a person back to the tab: count in the title, a dot on the icon and, where they asked for it, a notification
   and a sound. All of it comes from the count beside "Escalations", which live.js keeps current. */
(() => {
  "use strict";
  const TITLE = document.title;
  const SOON_MS = 120_000;
  const LOOK_MS = 5000;
  const SEEN = "dir-attention-seen"; // shared by the tabs of this browser, so that one of them speaks
  const KEYS = { desktop: "dir-notify-desktop", sound: "dir-notify-sound" };

  const read = (key) => {
    try {
      return localStorage.getItem(key);
    } catch {
      return null;
    }
  };
  const write = (key, value) => {
    try {
      localStorage.setItem(key, value);
      return true;
    } catch {
      return false; // no storage: nothing is opted in, and nothing speaks
    }
  };
  const forget = () => {
    try {
      localStorage.removeItem(SEEN);
    } catch {
      /* then nothing was kept */
    }
  };
  const wants = (what) => read(KEYS[what]) === "1";

  const look = () => {
    const data = document.querySelector("[data-attention]")?.dataset ?? {};
    const deadline = Date.parse(data.nextDeadline ?? "");
    return {
      total: Number(data.total ?? 0),
      high: Number(data.high ?? 0),
      newestHigh: data.newestHigh ?? "",
      soon: deadline - Date.now() < SOON_MS ? data.nextDeadline : "",
    };
  };
  const mark = ({ total, high, soon }) => {
    const isUrgent = total > 0 && Boolean(high || soon);
    const title = total ? `(${total}${isUrgent ? "!" : ""}) ${TITLE}` : TITLE;
    if (document.title !== title) document.title = title;
    const icon = document.querySelector("link[rel=icon][data-urgent]");
    const wanted = isUrgent ? icon?.dataset.urgent : icon?.dataset.calm;
    if (icon && icon.getAttribute("href") !== wanted) icon.setAttribute("href", wanted);
  };

  let audio = null;
  const chime = async () => {
    audio ??= new AudioContext();
    await audio.resume();
    [660, 880].forEach((pitch, index) => {
      const tone = audio.createOscillator();
      const volume = audio.createGain();
      const at = audio.currentTime + index * 0.18;
      tone.frequency.value = pitch;
      volume.gain.setValueAtTime(0.12, at);
      volume.gain.exponentialRampToValueAtTime(0.001, at + 0.16);
      tone.connect(volume).connect(audio.destination);
      tone.start(at);
      tone.stop(at + 0.17);
    });
  };
  const speak = (words) => {
    if (wants("sound")) void chime().catch(() => {});
    if (!wants("desktop") || !document.hidden || window.Notification?.permission !== "granted") return;
    const shown = new Notification("DIR Console", { body: words, tag: "dir-attention" });
    shown.addEventListener("click", () => {
      window.focus();
      location.assign(document.querySelector('.nav a[href*="/escalations/"]').href);
    });
  };
  /* What is news: a newer one of high impact, or another deadline that is near. */
  const compare = (now) => {
    const seen = JSON.parse(read(SEEN) ?? "null");
    const next = { high: now.newestHigh > (seen?.high ?? "") ? now.newestHigh : (seen?.high ?? ""), soon: now.soon || (seen?.soon ?? "") };
    if (JSON.stringify(next) === JSON.stringify(seen)) return;
    if (!write(SEEN, JSON.stringify(next)) || !seen) return; // what was there before is no news
    if (next.high !== seen.high) speak("A new escalation of high impact is open.");
    else if (now.soon) speak("An escalation is due in less than 2 minutes.");
  };
  const update = () => {
    const now = look();
    mark(now);
    if (wants("desktop") || wants("sound")) compare(now);
  };

  const say = (words) => {
    document.querySelector("[data-notify-said]").textContent = words;
  };
  const choose = async (box) => {
    if (box.checked && box.dataset.notify === "desktop") {
      const answer = await window.Notification?.requestPermission();
      if (answer !== "granted") {
        box.checked = false;
        return say("This browser does not allow notifications from this site.");
      }
    }
    if (box.checked && box.dataset.notify === "sound") void chime().catch(() => {});
    forget(); // what is open by now is no news
    if (!write(KEYS[box.dataset.notify], box.checked ? "1" : "0")) say("This browser keeps no settings, so the choice cannot be kept.");
    else say(box.checked ? "On in this browser." : "Off in this browser.");
  };
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-notify]")) void choose(event.target);
  });
  const start = () => {
    for (const box of document.querySelectorAll("[data-notify]")) box.checked = wants(box.dataset.notify);
    update();
  };
  document.addEventListener("DOMContentLoaded", start);
  document.addEventListener("dir:fresh", update);
  setInterval(update, LOOK_MS);
})();
