"""The page at `/api/v1/docs`: every call, drawn from OpenAPI, without a script and without a CDN.

Swagger UI would need the strict content policy relaxed; a list of calls does not.
"""

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.templatetags.static import static
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from ninja import NinjaAPI
from ninja.openapi.docs import DocsBase

_STYLES = ("css/tokens.css", "css/base.css", "css/layout.css", "css/components.css", "css/charts.css")
_CREDENTIALS = {
    "AgentKey": "agent key",
    "SessionToken": "session token",
    "FeedKey": "feed key",
    "StateReader": "session token, feed key or auditor's key",
    "AuditorAccess": "auditor's key, or signed in",
}
_NOTHING = SafeString("")


class DocsPage(DocsBase):
    """Renders the OpenAPI document as plain HTML."""

    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
        """The whole page."""
        document = api.get_openapi_schema(path_params=kwargs)
        calls = [
            _call(method, path, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        ]
        page = format_html(
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta name="color-scheme" content="light dark">{styles}</head>'
            '<body><main class="page stack"><h1>{title}</h1><p>{description}</p>'
            '<p class="small soft">Machine-readable version: <a href="{url}">openapi.json</a>, version '
            "{openapi}. Every refusal is a problem document: <code>code</code> says why, <code>detail</code> "
            "what to do next, <code>retriable</code> whether the same call may succeed later.</p>{calls}"
            "</main></body></html>",
            title=f"{api.title} {api.version}",
            styles=_joined(
                format_html('<link rel="stylesheet" href="{}">', static(name)) for name in _STYLES
            ),
            description=api.description,
            url=self.get_openapi_url(api, kwargs),
            openapi=document["openapi"],
            calls=_joined(calls),
        )
        return HttpResponse(page)


def _call(method: str, path: str, operation: dict[str, Any]) -> SafeString:
    bearer = ", ".join(_CREDENTIALS[name] for item in operation["security"] for name in item)
    body = _NOTHING
    if "requestBody" in operation:
        body = _schema("Body", operation["requestBody"]["content"]["application/json"]["schema"])
    return format_html(
        '<section class="panel"><header><h2 class="mono">{} {}</h2>'
        '<span class="badge push" data-tone="accent">{}</span></header>'
        '<div class="body"><p>{}</p>{}{}</div>{}</section>',
        method.upper(),
        path,
        bearer,
        operation["description"],
        body,
        _joined(_answer(status, answer) for status, answer in operation["responses"].items()),
        _parameters(operation["parameters"]),
    )


def _parameters(parameters: list[dict[str, Any]]) -> SafeString:
    if not parameters:
        return _NOTHING
    lines = (
        format_html(
            '<li><span class="code">{}</span><span class="small soft">{}, {}</span>'
            '<span class="small">{}</span></li>',
            item["name"],
            item["in"],
            "required" if item["required"] else "optional",
            item.get("description", ""),
        )
        for item in parameters
    )
    return format_html('<ul class="rows">{}</ul>', _joined(lines))


def _answer(status: Any, answer: dict[str, Any]) -> SafeString:
    content = answer.get("content", {}).get("application/json")
    return _NOTHING if content is None else _schema(f"Answer {status}", content["schema"])


def _schema(title: str, schema: dict[str, Any]) -> SafeString:
    return format_html(
        '<details class="fold"><summary>{}</summary><pre tabindex="0"><code>{}</code></pre></details>',
        title,
        json.dumps(schema, indent=2),
    )


def _joined(parts: Any) -> SafeString:
    return format_html_join("", "{}", ((part,) for part in parts))
