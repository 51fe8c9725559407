"""What makes the console installable: a manifest, and a service worker that keeps one notice only.

No page and no part of one is ever kept by the worker: what is shown must come from the server, now.
"""

import hashlib
from functools import cache
from pathlib import Path

from django.contrib.staticfiles import finders
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.templatetags.static import static
from django.urls import reverse
from django.views.decorators.http import require_safe

from audit.access.permissions import public

# All that the notice needs to look like the console.
NOTICE_FILES = (
    "css/tokens.css",
    "css/base.css",
    "css/layout.css",
    "css/components.css",
    "icons.svg",
    "favicon.svg",
    "js/theme.js",
    "js/offline.js",
)
ICON_SIZES = (192, 512)
DARK = "#161b24"


@require_safe
@public
def manifest(request: HttpRequest) -> HttpResponse:
    """Return the web app manifest."""
    plain = [
        {"src": static(f"icons/icon-{size}.png"), "sizes": f"{size}x{size}", "type": "image/png"}
        for size in ICON_SIZES
    ]
    # The same mark with the margin that a system may cut away.
    masked = [
        {
            "src": static(f"icons/maskable-{size}.png"),
            "sizes": f"{size}x{size}",
            "type": "image/png",
            "purpose": "maskable",
        }
        for size in ICON_SIZES
    ]
    vector = {"src": static("favicon.svg"), "sizes": "any", "type": "image/svg+xml"}
    content = {
        "id": reverse("escalations"),
        "name": "DIR Console",
        "short_name": "DIR Console",
        "description": "Decide what AI agents may not decide alone.",
        "lang": "en",
        "start_url": reverse("escalations"),
        "scope": reverse("overview"),
        "display": "standalone",
        "theme_color": DARK,
        "background_color": DARK,
        "icons": [vector, *plain, *masked],
    }
    answer = JsonResponse(content, content_type="application/manifest+json")
    answer.headers["Cache-Control"] = "no-cache"
    return answer


@require_safe
@public
def offline(request: HttpRequest) -> HttpResponse:
    """Show the notice that the service worker keeps for when the server cannot be reached."""
    return render(request, "console/offline.html")


@require_safe
@public
def service_worker(request: HttpRequest) -> HttpResponse:
    """Return the service worker; it lies at the root so that it sees every page."""
    notice = reverse("offline")
    context = {
        "version": _version(),
        "notice": notice,
        "files": [notice, *(static(name) for name in NOTICE_FILES)],
    }
    script = render_to_string("console/service_worker.js", context)
    answer = HttpResponse(script, content_type="text/javascript; charset=utf-8")
    answer.headers["Cache-Control"] = "no-cache"
    return answer


@cache
def _version() -> str:
    """A digest of the notice and its files, so that a new release replaces what a browser has kept."""
    digest = hashlib.sha256(render_to_string("console/offline.html").encode())
    for name in NOTICE_FILES:
        found = finders.find(name)
        digest.update(Path(str(found)).read_bytes())
    return digest.hexdigest()[:16]
