/* Keeps one notice for when the server cannot be reached, and no page of the console. */
"use strict";
const CACHE = "dir-notice-{{ version }}";
const NOTICE = "{{ notice|escapejs }}";
const FILES = [{% for file in files %}"{{ file|escapejs }}"{% if not forloop.last %}, {% endif %}{% endfor %}];

const keep = async () => {
  const cache = await caches.open(CACHE);
  await cache.addAll(FILES.map((file) => new Request(file, { cache: "reload", credentials: "omit" })));
};
const forgetOlder = async () => {
  for (const name of await caches.keys()) if (name !== CACHE) await caches.delete(name);
};
const kept = async (address) => (await caches.open(CACHE)).match(address);

self.addEventListener("install", (event) => event.waitUntil(keep().then(() => self.skipWaiting())));
self.addEventListener("activate", (event) => event.waitUntil(forgetOlder()));
self.addEventListener("fetch", (event) => {
  const { request } = event;
  // A decision is sent by the page itself or not at all.
  if (request.method !== "GET") return;
  const { origin, pathname } = new URL(request.url);
  if (request.mode === "navigate") {
    event.respondWith(fetch(request).catch(async () => (await kept(NOTICE)) ?? Response.error()));
  } else if (origin === location.origin && FILES.includes(pathname)) {
    event.respondWith(fetch(request).catch(async () => (await kept(pathname)) ?? Response.error()));
  }
});
