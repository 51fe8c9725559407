"""A document with versions: a draft is checked, saved, activated by another admin, or discarded.

Manifests, policy kinds, rulesets, calibration maps and the ontology are such documents; they differ only in
what `VersionedDocument` leaves open. A version never changes once it is stored, and its number stays taken. A
draft has no effect until another admin than its author activates it, in place of the version that the page
showed as active.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Generic, TypeVar

from audit import events, ledger
from runtime.contracts import recorded_only
from runtime.contracts.document import Contract
from runtime.contracts.lint_severity import LintSeverity
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, given_reasons, transactions
from runtime.kernel import versions
from runtime.registry.models import Manifest, PolicyKind, Ruleset
from runtime.registry.models.calibration_maps import CalibrationMap
from runtime.registry.models.ontologies import Ontology
from runtime.registry.models.versions import DocumentVersion, SwappedVersion
from runtime.registry.services import document_reading, dual_control
from runtime.registry.services.document_reading import DocumentProblem
from runtime.registry.services.lint_results import LintMessage, LintResult

Row = TypeVar("Row", Manifest, PolicyKind, Ruleset, CalibrationMap, Ontology)
Document = TypeVar("Document", bound=Contract)


@dataclass(frozen=True, slots=True)
class DraftText(Generic[Document]):
    """A draft's text as it was read, and what is wrong with it in itself; no contract if it is unreadable."""

    source: document_reading.Source
    contract: Document | None
    problems: tuple[DocumentProblem, ...] = ()


def read(
    text: str, *, contract: type[Document], max_chars: int, tab_width: int | None = None
) -> DraftText[Document]:
    """Read a draft's text, YAML as in a pack or JSON. Reads no row; it may take a while.

    With `tab_width`, JSON may be indented by tabs, which YAML refuses; outside its texts a tab is a space to
    both.
    """
    source = document_reading.Source(name="draft")
    if len(text) > max_chars:
        too_long = f"the text is longer than {max_chars} characters"
        return DraftText(source, None, (DocumentProblem((), too_long),))
    if tab_width is not None and text.lstrip().startswith("{"):
        text = text.expandtabs(tab_width)
    found = document_reading.read_document(text=text, source=source, contract=contract)
    return DraftText(source, None, found) if isinstance(found, tuple) else DraftText(source, found)


class VersionedDocument(ABC, Generic[Row, Document]):
    """One document with its versions, in the caller's transaction; `stream` is where its entries go."""

    unsound: ProblemCode  # the problem code of a draft that cannot be saved
    # Of rows that say themselves whether they are active: what such a row still has to be.
    swappable: Mapping[str, None] = MappingProxyType({"discarded_at": None})

    def __init__(self, *, tenant: str, stream: str) -> None:
        self.tenant = tenant
        self.stream = stream

    def check(self, draft: DraftText[Document]) -> LintResult[Document]:
        """What speaks against a draft in itself, and among the rows that there are now. Writes nothing."""

        def remark(problem: DocumentProblem, severity: LintSeverity) -> LintMessage:
            return LintMessage(
                line=draft.source.line(problem),
                field=document_reading.written(problem.place),
                message=problem.message,
                severity=severity,
                place=problem.place,
            )

        contract = draft.contract
        if contract is None:
            wrong = dict.fromkeys(remark(problem, LintSeverity.ERROR) for problem in draft.problems)
            return LintResult(contract=None, remarks=tuple(wrong))
        remarks = [remark(problem, severity) for problem, severity in self.lint(draft, contract)]
        remarks += [
            remark(DocumentProblem(place, recorded_only.WORDS), LintSeverity.WARNING)
            for place in recorded_only.places(contract)
        ]
        return LintResult(contract=contract, remarks=tuple(remarks))

    def save(self, draft: DraftText[Document], *, actor: str) -> Row | Problem:
        """Register a draft as the next version; 422 with a violation for each field that is wrong."""
        if draft.contract is not None and (same := self.get_same(draft.contract, actor=actor)) is not None:
            return same
        checked = self.check(draft)
        if checked.contract is None or not checked.is_sound:
            return checked.refusal(code=self.unsound)
        return self.store(checked.contract, actor=actor, at=clock.now())

    def store(self, contract: Document, *, actor: str, at: datetime) -> Row:
        """Register what speaks against nothing as a draft, with its entry."""
        row, registered = self.register(contract, actor=actor, at=at)
        self._append(registered, actor=actor, at=at)
        return row

    def may_activate(self, row: Row, *, actor: str) -> dual_control.Approved | Problem:
        """Whether `actor` may activate a version now: one answer for the button and for the write."""
        return self.refuse_activation(row) or dual_control.check(
            author=row.created_by, actor=actor, what=self.name_of(row)
        )

    def activate(self, version: str, *, seen_active: str, reason: str, actor: str) -> Row | Problem:
        """Activate a version in place of `seen_active`, the one that was shown as active ("" for none).

        409 where another one was activated since: what the version changes is no longer what was shown.
        """
        if (missing := given_reasons.refuse(reason)) is not None:
            return missing
        row = self.lock_version(version)
        if isinstance(row, Problem):
            return row
        active = self.get_active()
        active_version = "" if active is None else str(active.version)
        if active_version != seen_active and active != row:
            return self.refuse_moved(row, active=active_version)
        approved = self.may_activate(row, actor=actor)
        if isinstance(approved, Problem):
            return approved
        at = clock.now()
        activated = self.set_active(row, actor=actor, at=at, reason=reason.strip(), solo=approved.solo)
        self._append(activated, actor=actor, at=at)
        return row

    def discard(self, version: str, *, reason: str, actor: str) -> Row | Problem:
        """Mark a draft as one that is never activated; its row stays, and its version number stays taken."""
        if (missing := given_reasons.refuse(reason)) is not None:
            return missing
        row = self.lock_version(version)
        if isinstance(row, Problem):
            return row
        if (refusal := self.refuse_discard(row)) is not None:
            return refusal
        at = clock.now()
        row.discarded_at, row.discarded_by, row.reason = at, actor, reason.strip()
        row.save(update_fields=["discarded_at", "discarded_by", "reason"])
        self._append(self.discarded(row), actor=actor, at=at)
        return row

    def swap_in(
        self,
        row: SwappedVersion,
        *,
        before: SwappedVersion | None,
        actor: str,
        at: datetime,
        reason: str,
        solo: bool,
    ) -> None:
        """Make a row the active one in place of `before`.

        Raises `transactions.ConcurrentUpdateError` where another version came or went between the caller's
        read and this write.
        """
        if before is not None:
            self._swap(before, active=False)
        note_activation(row, actor=actor, at=at, reason=reason, solo=solo)
        self._swap(row, active=True)
        row.active = True

    def _swap(self, row: SwappedVersion, *, active: bool) -> None:
        rows = type(row)._default_manager.filter(pk=row.pk, active=not active, **self.swappable)
        if rows.update(active=active) != 1:
            raise transactions.ConcurrentUpdateError

    def _append(self, event: events.Event, *, actor: str, at: datetime) -> None:
        ledger.append_to(tenant=self.tenant, stream=self.stream, actor=actor, at=at, events=[event])

    @abstractmethod
    def lint(
        self, draft: DraftText[Document], contract: Document
    ) -> Iterable[tuple[DocumentProblem, LintSeverity]]:
        """What there is to be said of a draft among the rows that there are now, and how serious it is."""

    def get_same(self, contract: Document, *, actor: str) -> Row | None:
        """The version that the very same draft of this author became, where a draft sent twice is one."""
        return None

    @abstractmethod
    def register(self, contract: Document, *, actor: str, at: datetime) -> tuple[Row, events.Event]:
        """Store a version that has no effect yet; with the entry to append."""

    @abstractmethod
    def lock_version(self, version: str) -> Row | Problem:
        """A version, locked together with what decides which version is active; 404 where there is none."""

    @abstractmethod
    def get_active(self) -> Row | None:
        """The active version, or None."""

    @abstractmethod
    def set_active(
        self, row: Row, *, actor: str, at: datetime, reason: str = "", solo: bool = False
    ) -> events.Event:
        """Make a version the active one; with the entry to append."""

    @abstractmethod
    def discarded(self, row: Row) -> events.Event:
        """The entry of a draft that was discarded."""

    @abstractmethod
    def name_of(self, row: Row) -> str:
        """A version as a sentence about its author names it."""

    @abstractmethod
    def refuse_moved(self, row: Row, *, active: str) -> Problem:
        """The refusal where `active` ("" for none) became the active version since the page was shown."""

    @abstractmethod
    def refuse_activation(self, row: Row) -> Problem | None:
        """Why nobody may activate a version: its state, its bytes, or what has come since it was drafted."""

    @abstractmethod
    def refuse_discard(self, row: Row) -> Problem | None:
        """Why a version cannot be discarded: only a draft can."""


def note_activation(row: DocumentVersion, *, actor: str, at: datetime, reason: str, solo: bool) -> None:
    """Keep who activated a version, when and why."""
    row.activated_at, row.activated_by, row.reason, row.solo = at, actor, reason, solo
    row.save(update_fields=["activated_at", "activated_by", "reason", "solo"])


def lint_number(version: str, taken: Collection[str]) -> Iterator[DocumentProblem]:
    """A new version has a number that none has, and that is later than all."""
    if version in taken:
        said = f"{version} is registered already; give the change a new version"
        yield DocumentProblem(("version",), said)
    elif not versions.is_later(version, versions.highest(taken)):
        said = f"{versions.highest(taken)} is registered; a new version must be later"
        yield DocumentProblem(("version",), said)
