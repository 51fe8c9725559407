"""One editor for versioned documents: the document as a form or as text, checked and saved one way."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Generic, Protocol

from django.http import HttpRequest, HttpResponse, QueryDict

from runtime.contracts.lint_severity import LintSeverity
from runtime.contracts.problem import Problem
from runtime.proposals.queries.limit_usage import LimitUsage
from runtime.registry.services import document_reading, document_writing
from runtime.registry.services.document_reading import DocumentProblem, Place
from runtime.registry.services.lint_results import LintMessage, LintResult
from runtime.registry.services.versioned_documents import Document, Row
from runtime.registry.views import form_page
from runtime.registry.views.document_form import DocumentForm

AS_TEXT = "document"


class Form(Protocol):
    """The fields of a document.

    `unread` are those that are no value, by name, with what is wrong; `refused` what a button could not do.
    """

    @property
    def unread(self) -> dict[str, str]: ...

    @property
    def refused(self) -> dict[str, str]: ...

    def change_rows(self, posted: QueryDict) -> bool: ...

    def document(self) -> dict[str, Any]: ...

    def field_at(self, place: Place, document: Mapping[str, Any]) -> str: ...


class ShownForm(Protocol):
    """A form that can be shown, with what the check of its document found; the findings are among it."""

    @property
    def form(self) -> Form: ...

    def shown(self, document: Mapping[str, Any], remarks: Sequence[LintMessage]) -> dict[str, Any]: ...


@dataclass(frozen=True, kw_only=True)
class FormWithFigures:
    """A form, with the usage and the units of its limits by the names of their fields.

    `usage` evaluates many stored proposals: only a page that shows the form asks for it.
    """

    form: DocumentForm
    usage: Callable[[], Mapping[str, LimitUsage]]
    measures: Mapping[str, str]

    def shown(self, document: Mapping[str, Any], remarks: Sequence[LintMessage]) -> dict[str, Any]:
        """The form for its page."""
        return form_page.shown(
            self.form, document=document, remarks=remarks, usage=self.usage(), measures=self.measures
        )


@dataclass(frozen=True, kw_only=True)
class Edited(Generic[Document]):
    """What the editor shows: the document as `text` or as the form's `fields`, and what the check found."""

    text: str
    checked: LintResult[Document] | None = None
    fields: ShownForm | None = None
    status: int = 200

    def page(self, as_text: Callable[[Mapping[str, Any]], str]) -> dict[str, Any]:
        """What the templates of the editor show; `as_text` writes the document beside the form."""
        remarks: Sequence[LintMessage] = () if self.checked is None else self.checked.remarks
        if self.fields is None:
            return {
                "text": self.text,
                "lines": min(48, max(16, self.text.count("\n") + 2)),
                "checked": self.checked,
                "findings": [form_page.finding(remark) for remark in remarks],
            }
        document = self.fields.form.document()
        shown = self.fields.shown(document, remarks)
        return {
            "text": as_text(document),
            "checked": self.checked,
            "findings": shown.pop("findings"),
            "form": shown,
        }


Build = Callable[[dict[str, Any], QueryDict | None], ShownForm]


def opened(text: str, build: Build, *, is_text: bool) -> Edited[Any]:
    """The editor as it begins."""
    base = read(text)
    return Edited(
        text=text, fields=None if is_text or isinstance(base, DocumentProblem) else build(base, None)
    )


def answer(
    request: HttpRequest,
    *,
    build: Build,
    as_text: Callable[[Mapping[str, Any]], str],
    check: Callable[[str], LintResult[Document]],
    save: Callable[[str], Row | Problem],
    show: Callable[[Edited[Document]], HttpResponse],
    done: Callable[[Row], HttpResponse],
) -> HttpResponse:
    """Answer what the editor sent: check or save the document, change rows, or change the view.

    A form is a document and what was typed over it (`base`); without it the document itself is sent.
    """
    post = request.POST
    if "base" not in post:
        return _answer_text(post, build=build, check=check, save=save, show=show, done=done)
    base = read(post["base"])
    if isinstance(base, DocumentProblem):
        return show(Edited(text=post["base"], checked=check(post["base"]), status=_refused()))
    fields = build(base, post)
    form = fields.form
    if form.change_rows(post):
        status = _refused() if form.refused else HTTPStatus.OK
        return show(Edited(text="", fields=fields, status=status))
    document = form.document()
    text = document_writing.value_as_json(document)
    if form.unread:
        unread = _with_unread(check(text), form)
        return show(Edited(text=text, fields=fields, checked=unread, status=_refused()))
    if post.get("view") == AS_TEXT:
        return show(Edited(text=as_text(document)))
    if post.get("action") == "save":
        saved = save(text)
        if not isinstance(saved, Problem):
            return done(saved)
        return show(Edited(text=text, fields=fields, checked=check(text), status=saved.status))
    checked = check(text)
    status = HTTPStatus.OK if checked.is_sound else _refused()
    return show(Edited(text=text, fields=fields, checked=checked, status=status))


def _answer_text(
    post: QueryDict,
    *,
    build: Build,
    check: Callable[[str], LintResult[Document]],
    save: Callable[[str], Row | Problem],
    show: Callable[[Edited[Document]], HttpResponse],
    done: Callable[[Row], HttpResponse],
) -> HttpResponse:
    text = post.get("document", "")
    if post.get("view") == "form":
        base = read(text)
        if isinstance(base, DocumentProblem):
            return show(Edited(text=text, checked=check(text), status=_refused()))
        return show(Edited(text=text, fields=build(base, None)))
    if post.get("action") != "save":
        return show(Edited(text=text, checked=check(text)))
    saved = save(text)
    if isinstance(saved, Problem):
        return show(Edited(text=text, checked=check(text), status=saved.status))
    return done(saved)


def read(text: str) -> dict[str, Any] | DocumentProblem:
    """The document of a text, where it is a map, which is what a form can show."""
    found = document_reading.read_value(text=text, source=document_reading.Source(name="draft"))
    if isinstance(found, DocumentProblem):
        return found
    return found if isinstance(found, dict) else DocumentProblem((), "must be a map")


def _with_unread(checked: LintResult[Document], form: Form) -> LintResult[Document]:
    """The check with what could not be read, and without a contract: the document is not what was typed.

    A finding about a field whose text could not be read is left out, since it is about the value before.
    """
    unread = tuple(
        LintMessage(line=1, field=name, message=message, severity=LintSeverity.ERROR)
        for name, message in form.unread.items()
    )
    document = form.document()
    others = tuple(
        remark for remark in checked.remarks if form.field_at(remark.place, document) not in form.unread
    )
    return replace(checked, contract=None, remarks=(*unread, *others))


def _refused() -> int:
    return HTTPStatus.UNPROCESSABLE_ENTITY
