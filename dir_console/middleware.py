"""Around every page: security headers, and requests that no page can use."""

from collections.abc import Callable

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render

Next = Callable[[HttpRequest], HttpResponse]
NUL = "\x00"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; worker-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
# The API's own documentation page brings Swagger UI from the package's static files, with one inline starter.
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",  # for browsers that do not know frame-ancestors
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class SecurityHeadersMiddleware:
    """Sets the headers, and forbids caches to keep a page of a signed-in person."""

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if not request.path.startswith("/static/"):
            response.headers.setdefault("Cache-Control", "no-store")
        return response


class ReadableRequestMiddleware:
    """Refuses what nothing here can use: a NUL, which PostgreSQL cannot store, and forms not in UTF-8.

    In a page's query a NUL is left out: a query that cannot be read asks for nothing and never fails. The API
    reads its own bodies and queries, and answers with problem documents.
    """

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if NUL in request.path_info:
            raise Http404
        if request.path_info.startswith("/api/"):
            return self.get_response(request)
        if (request.content_params or {}).get("charset", "utf-8").lower() != "utf-8":
            return _unreadable(request, "Send the form in UTF-8. Nothing was changed.")
        if any(NUL in text for _, texts in request.POST.lists() for text in texts):
            detail = (
                "A field contains the NUL character, which cannot be stored. Remove it. Nothing was changed."
            )
            return _unreadable(request, detail)
        if any(NUL in text for _, texts in request.GET.lists() for text in texts):
            asked = request.GET.copy()
            for name, texts in request.GET.lists():
                asked.setlist(name, [text.replace(NUL, "") for text in texts])
            request.GET = QueryDict(asked.urlencode())
        return self.get_response(request)


def _unreadable(request: HttpRequest, detail: str) -> HttpResponse:
    context = {"status": 400, "title": "This request could not be read", "detail": detail}
    return render(request, "error.html", context, status=400)
