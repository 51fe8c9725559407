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

_STYLES = ("css/tokens.css", "css/base.css", "css/layout.css", "css/components.css")


class DocsPage(DocsBase):
    """Renders the OpenAPI document as plain HTML."""

    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
        """The whole page."""
        document = api.get_openapi_schema(path_params=kwargs)
        styles = format_html_join(
            "", '<link rel="stylesheet" href="{}">', ((static(name),) for name in _STYLES)
        )
        calls = format_html_join(
            "",
            "{}",
            (
                (_call(method, path, operation),)
                for path, methods in document["paths"].items()
                for method, operation in methods.items()
            ),
        )
        return HttpResponse(
            format_html(
                '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
                '<meta name="viewport" content="width=device-width, initial-scale=1">'
                '<meta name="color-scheme" content="light dark">{styles}</head>'
                '<body><main class="page"><h1>{title}</h1><p>{description}</p>'
                '<p>The same as <a href="{url}">OpenAPI {openapi}</a>, for programs.</p>{calls}'
                "</main></body></html>",
                title=f"{api.title} {api.version}",
                styles=styles,
                description=api.description,
                url=self.get_openapi_url(api, kwargs),
                openapi=document["openapi"],
                calls=calls,
            )
        )


def _call(method: str, path: str, operation: dict[str, Any]) -> SafeString:
    security = ", ".join(name for item in operation.get("security", ()) for name in item)
    return format_html(
        '<section class="card"><h2><code>{} {}</code></h2><p>{}</p><p>Bearer: {}</p>{}{}{}</section>',
        method.upper(),
        path,
        operation.get("description", operation["summary"]),
        security or "none",
        _parameters(operation.get("parameters", [])),
        _body(operation),
        _answers(operation["responses"]),
    )


def _parameters(parameters: list[dict[str, Any]]) -> SafeString:
    if not parameters:
        return SafeString("")
    rows = format_html_join(
        "",
        "<tr><th scope='row'><code>{}</code></th><td>{}</td><td>{}</td><td>{}</td></tr>",
        (
            (
                item["name"],
                item["in"],
                "required" if item["required"] else "optional",
                item.get("description", ""),
            )
            for item in parameters
        ),
    )
    return format_html("<table><caption>Parameters</caption><tbody>{}</tbody></table>", rows)


def _body(operation: dict[str, Any]) -> SafeString:
    if "requestBody" not in operation:
        return SafeString("")
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    return format_html(
        "<details><summary>Body</summary><pre>{}</pre></details>", json.dumps(schema, indent=2)
    )


def _answers(responses: dict[Any, dict[str, Any]]) -> SafeString:
    lines = format_html_join(
        "",
        "<li><code>{}</code> {}</li>",
        ((status, answer["description"]) for status, answer in responses.items()),
    )
    return format_html("<ul>{}</ul>", lines)
