/* A claim lives while its page is open and visible: it is renewed every few minutes, and shown as over when it is. */
(() => {
  "use strict";
  const RENEW_MS = 180_000; // a lease lasts ten minutes: two lost renewals are no loss of the claim
  let renewedAt = 0;

  const refresh = () => document.dispatchEvent(new CustomEvent("dir:refresh"));
  const renew = async () => {
    const held = document.querySelector("[data-claim-held]");
    if (!held || document.visibilityState !== "visible" || Date.now() - renewedAt < RENEW_MS) return;
    renewedAt = Date.now();
    try {
      const answer = await fetch(held.dataset.claimHeld, { method: "POST", body: new FormData(held), credentials: "same-origin" });
      if (!answer.ok) refresh(); // someone took it over, or it has ended
    } catch {
      renewedAt = 0; // not sent: tried again at the next look
    }
  };

  /* Nothing is sent when a lease runs out, so the page that counts it down asks. */
  let asked = "";
  const look = () => {
    const end = document.querySelector("[data-claim-ends] time[data-countdown]");
    if (end && new Date(end.dateTime) < new Date() && asked !== end.dateTime) {
      asked = end.dateTime;
      refresh();
    }
    void renew();
  };
  setInterval(look, 5000);
  document.addEventListener("visibilitychange", () => void renew());
})();
