/* Sends the decision form without leaving the page, so that nothing typed is lost. Without script it is a plain POST. */
(() => {
  "use strict";
  const form = document.querySelector("[data-decision]");
  if (!form || !window.dirInPlace) return;
  const { show, notice } = window.dirInPlace;
  const submit = form.querySelector("[data-submit]");
  const dialog = document.querySelector("[data-step-up]");
  const ANSWER_MS = 30_000;
  const KEPT = "Your text is kept.";
  let isSending = false;
  let isAskedBySubmit = false;

  const send = (url, options) => {
    const headers = { "HX-Request": "true", "HX-Current-URL": location.href };
    return fetch(url, { headers, credentials: "same-origin", signal: AbortSignal.timeout(ANSWER_MS), ...options });
  };
  const signedOut = (href) => notice("warn", "You were signed out.", `Nothing was sent. ${KEPT}`, { href, words: "Sign in and continue" });
  const notSent = () => notice("danger", "Not sent.", `${KEPT} If it did arrive, sending it again changes nothing.`);

  /* The form's token is of an earlier sign-in: take the one of now, if it is still the same person. */
  const renew = async () => {
    const answer = await send(location.href);
    const place = answer.headers.get("HX-Redirect");
    if (place) return signedOut(place);
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    const user = found.querySelector("[data-escalation]")?.dataset.user;
    if (user !== document.querySelector("[data-escalation]").dataset.user) {
      return notice("warn", "Somebody else is signed in here now.", "Nothing was sent.", { href: location.href, words: "Reload" });
    }
    const token = found.querySelector("[name=csrfmiddlewaretoken]").value;
    for (const field of document.querySelectorAll("[name=csrfmiddlewaretoken]")) field.value = token;
    notice("warn", "You signed in again since.", `Nothing was sent. ${KEPT} Send it again.`);
  };

  const take = async (answer) => {
    const place = answer.headers.get("HX-Redirect");
    if (place && answer.status === 401) return signedOut(place);
    if (place) {
      window.dirDrafts?.forget();
      location.assign(place);
      return true;
    }
    if (answer.status >= 502) return notSent();
    const code = show(await answer.text());
    if (code === "STEP_UP") askPassword(true);
    else if (!code && answer.status === 403) await renew();
    else if (!code) notice("danger", "The server answered with an error.", `${KEPT} Reload the page before you send it again.`);
  };
  form.addEventListener("submit", async (event) => {
    if (event.defaultPrevented || (event.submitter && event.submitter !== submit)) return;
    event.preventDefault();
    if (isSending) return;
    isSending = true;
    let isLeaving = false;
    try {
      isLeaving = await take(await send(form.getAttribute("action"), { method: "POST", body: new URLSearchParams(new FormData(form)) }));
    } catch {
      notSent();
      window.dirConnection?.unanswered();
    }
    isSending = false;
    if (isLeaving) return;
    submit.disabled = false;
    window.dirConnection?.check();
  });

  window.addEventListener("pageshow", (event) => {
    if (event.persisted) submit.disabled = false;
  });

  const askPassword = (bySubmit) => {
    isAskedBySubmit = bySubmit;
    dialog.querySelector("form").reset();
    complain("");
    dialog.showModal();
    dialog.querySelector("[name=password]").focus();
  };
  const complain = (words) => {
    const place = dialog.querySelector(".wrong");
    const field = dialog.querySelector("[name=password]");
    place.textContent = words;
    place.hidden = !words;
    if (words) field.setAttribute("aria-describedby", place.id);
    field.toggleAttribute("aria-invalid", Boolean(words));
    field.focus();
  };
  const confirm = async (fields) => {
    const answer = await fetch(fields.action, { method: "POST", body: new URLSearchParams(new FormData(fields)), credentials: "same-origin", signal: AbortSignal.timeout(ANSWER_MS) });
    if (answer.status === 429) return complain("Too many attempts. Wait a minute.");
    if (answer.url.includes("/accounts/login/")) {
      dialog.close();
      return signedOut(answer.url);
    }
    const found = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!answer.url.endsWith(fields.elements.next.value)) {
      return complain(found.querySelector(".wrong, .errors")?.textContent.trim() || "The password was not accepted.");
    }
    dialog.close();
    document.querySelector("[data-swap=step-up]")?.replaceChildren();
    window.dirConsole?.announce("Password confirmed.");
    if (isAskedBySubmit) form.requestSubmit(submit);
    else form.querySelector("[name=action]:checked")?.focus();
  };
  dialog?.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const fields = event.target;
    fields.elements.csrfmiddlewaretoken.value = form.elements.csrfmiddlewaretoken.value;
    try {
      await confirm(fields);
    } catch {
      complain(`Not connected. ${KEPT}`);
    }
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-ask-password]") || !dialog) return;
    event.preventDefault();
    askPassword(false);
  });
  /* A live part of the page found the session gone: say so here instead of leaving with what was typed. */
  document.addEventListener("dir:signed-out", (event) => {
    event.preventDefault();
    if (!document.getElementById("problem")) signedOut(event.detail);
  });
})();
