"""Policy kinds: the one place that registers versions, activates them and discards drafts.

A version is immutable under its number. A draft rules nothing until another admin than its author activates
it; the version before is superseded, and may be activated again. What was judged stays judged under the
version it was judged under; contexts and sessions stay as they are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from audit import actors, events, ledger
from runtime.contracts import recorded_only
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import KindState
from runtime.core import clock, ports, transactions
from runtime.kernel import versions
from runtime.registry.models import PolicyKind
from runtime.registry.queries import kind_versions, manifest_versions, recorded_versions, target_endpoints
from runtime.registry.services import document_checks, document_reading, dual_control
from runtime.registry.services.lint_results import LintMessage, LintResult

LONGEST_REASON = 500
MOST_DRAFT_CHARS = 200_000


def register(
    *, tenant: str, contract: KindDocument, actor: str, at: datetime
) -> tuple[PolicyKind, events.KindRegistered]:
    """Store a version that rules nothing yet, in the caller's transaction; with the entry to append."""
    row = PolicyKind.objects.create(
        tenant=tenant,
        kind=contract.kind,
        version=contract.version,
        title=contract.title,
        risk_tier=contract.risk_tier,
        body=contract.to_bytes(),
        digest=contract.digest,
        created_at=at,
        created_by=actor,
    )
    return row, events.KindRegistered(policy_kind=row.kind, version=row.version, digest=row.digest)


def put_in_force(
    *, row: PolicyKind, actor: str, at: datetime, reason: str = "", solo: bool = False
) -> events.KindActivated:
    """Make a version the active one of its kind, in the caller's transaction; with the entry to append.

    Raises `transactions.ConcurrentUpdateError` where another version came or went between the caller's read
    and this write.
    """
    before = kind_versions.get_active(tenant=row.tenant, kind=row.kind)
    if before is not None and _swap(before, active=False) != 1:
        raise transactions.ConcurrentUpdateError
    row.activated_at, row.activated_by, row.reason, row.solo = at, actor, reason, solo
    row.save(update_fields=["activated_at", "activated_by", "reason", "solo"])
    if _swap(row, active=True) != 1:
        raise transactions.ConcurrentUpdateError
    row.active = True
    return events.KindActivated(
        policy_kind=row.kind,
        version=row.version,
        digest=row.digest,
        reason=reason,
        solo=solo,
        replaces="" if before is None else before.version,
    )


def check(*, tenant: str, text: str, kind: str = "") -> LintResult[KindDocument]:
    """Read a draft's text (YAML as in a pack, or JSON) and report its problems. Writes nothing.

    With `kind`, the text must be a version of that kind.
    """
    return _among_rows(_read(text), tenant=tenant, kind=kind)


def draft(*, tenant: str, text: str, actor: str, kind: str = "") -> PolicyKind | Problem:
    """Register a version from text; 422 with a violation for each field that is wrong.

    The very same version again is the row that is there: a form sent twice drafts once.
    """
    # Reading and linting may take seconds, in which no one else could write.
    read = _read(text)

    def work() -> PolicyKind | Problem:
        checked = _among_rows(read, tenant=tenant, kind=kind)
        contract = checked.contract
        if contract is not None:
            held = kind_versions.get_version(tenant=tenant, kind=contract.kind, version=contract.version)
            if held is not None and held.digest == contract.digest and held.created_by == actor:
                return held
        if contract is None or not checked.is_sound:
            return checked.refusal(code=ProblemCode.KIND_UNSOUND)
        at = clock.now()
        row, registered = register(tenant=tenant, contract=contract, actor=actor, at=at)
        _append(row, actor, at, registered)
        return row

    return transactions.retry_on_conflict(work)


@dataclass(frozen=True, slots=True)
class _ReadKind:
    """A draft's text as it was read; what is wrong with its form, or (where it is a kind) by the linter."""

    source: document_reading.Source
    contract: KindDocument | None
    problems: tuple[document_reading.DocumentProblem, ...]


def _read(text: str) -> _ReadKind:
    """Read and lint a text; no row is read."""
    source = document_reading.Source(name="draft")
    if len(text) > MOST_DRAFT_CHARS:
        said = f"the text is longer than {MOST_DRAFT_CHARS} characters"
        return _ReadKind(source, None, (document_reading.DocumentProblem((), said),))
    # JSON may be indented by tabs, which YAML refuses; outside its texts a tab is a space to both.
    spaced = text.expandtabs(2) if text.lstrip().startswith("{") else text
    read = document_reading.read_document(text=spaced, source=source, contract=KindDocument)
    if not isinstance(read, KindDocument):
        return _ReadKind(source, None, tuple(dict.fromkeys(read)))
    return _ReadKind(source, read, document_checks.lint(read))


def _among_rows(read: _ReadKind, *, tenant: str, kind: str) -> LintResult[KindDocument]:
    """What speaks against a draft among the rows that there are now: versions, targets and the others."""
    contract = read.contract
    if contract is None:
        wrong = (_remark(read.source, problem, is_wrong=True) for problem in read.problems)
        return LintResult(contract=None, remarks=tuple(dict.fromkeys(wrong)))
    found = [(problem, True) for problem in _problems(tenant, contract, read.problems, kind)]
    found += [
        (document_reading.DocumentProblem(place, recorded_only.WORDS), False)
        for place in recorded_only.places(contract)
    ]
    return LintResult(
        contract=contract,
        remarks=tuple(_remark(read.source, problem, is_wrong=is_wrong) for problem, is_wrong in found),
    )


def may_activate(*, row: PolicyKind, actor: str) -> dual_control.Approved | Problem:
    """Whether `actor` may activate a version now: one answer for the button and for the write."""
    name = f"{row.kind} {row.version}"
    match kind_versions.state_of(row):
        case KindState.ACTIVE:
            return Problem(code=ProblemCode.KIND_ACTIVE, detail=f"{name} is already active.")
        case KindState.DISCARDED:
            return Problem(
                code=ProblemCode.KIND_DISCARDED, detail=f"{name} was discarded. Draft a new version."
            )
        case KindState.DRAFT | KindState.SUPERSEDED:
            return (
                dual_control.refuse_tampered(recorded_versions.compare_drafted_kind(row))
                or _unfit(row)
                or dual_control.check(author=row.created_by, actor=actor, what=name)
            )


def activate(
    *, tenant: str, kind: str, version: str, seen_active: str, reason: str, actor: str
) -> PolicyKind | Problem:
    """Activate a version in place of `seen_active`, which its activator saw as active ("" for none).

    409 where another one was activated since: what this one changes is no longer what was shown.
    """

    def work(row: PolicyKind) -> PolicyKind | Problem:
        before = kind_versions.get_active(tenant=tenant, kind=kind)
        in_force = "" if before is None else before.version
        if in_force != seen_active and not row.active:
            said = f"{in_force or 'No version'} is active now. Review again what {version} changes."
            return Problem(code=ProblemCode.KIND_MOVED, detail=said)
        agreed = may_activate(row=row, actor=actor)
        if isinstance(agreed, Problem):
            return agreed
        at = clock.now()
        _append(
            row, actor, at, put_in_force(row=row, actor=actor, at=at, reason=reason.strip(), solo=agreed.solo)
        )
        return row

    # Kept for `may_activate`, which asks again with the row locked: a version never changes.
    drafted = kind_versions.get_version(tenant=tenant, kind=kind, version=version)
    if drafted is not None:
        kind_versions.lint_of(drafted)
    return _on_version(tenant, kind, version, reason, work)


def discard(*, tenant: str, kind: str, version: str, reason: str, actor: str) -> PolicyKind | Problem:
    """Mark a draft as one that never comes into force; its row stays, and its version stays taken."""

    def work(row: PolicyKind) -> PolicyKind | Problem:
        if kind_versions.state_of(row) is not KindState.DRAFT:
            said = f"{kind} {version} is not a draft: only one can be discarded."
            return Problem(code=ProblemCode.KIND_NOT_A_DRAFT, detail=said)
        at = clock.now()
        row.discarded_at, row.discarded_by, row.reason = at, actor, reason.strip()
        row.save(update_fields=["discarded_at", "discarded_by", "reason"])
        discarded = events.KindDiscarded(
            policy_kind=row.kind, version=row.version, digest=row.digest, reason=row.reason
        )
        _append(row, actor, at, discarded)
        return row

    return _on_version(tenant, kind, version, reason, work)


def _on_version(
    tenant: str, kind: str, version: str, reason: str, work: Callable[[PolicyKind], PolicyKind | Problem]
) -> PolicyKind | Problem:
    if not 0 < len(reason.strip()) <= LONGEST_REASON or "\x00" in reason:
        said = f"Give a reason of at most {LONGEST_REASON} characters. It is kept in the ledger."
        return Problem(code=ProblemCode.REASON_MISSING, detail=said)

    def locked() -> PolicyKind | Problem:
        # All versions of the kind: who activates another one waits here, and then sees this one active.
        rows = {row.version: row for row in kind_versions.lock_versions(tenant=tenant, kind=kind)}
        if version not in rows:
            return Problem(code=ProblemCode.NOT_FOUND, detail="No policy kind has this name and version.")
        return work(rows[version])

    return transactions.retry_on_conflict(locked)


def _swap(row: PolicyKind, *, active: bool) -> int:
    return PolicyKind.objects.filter(pk=row.pk, active=not active, discarded_at=None).update(active=active)


def _problems(
    tenant: str, contract: KindDocument, linted: document_checks.Linted, kind: str
) -> list[document_reading.DocumentProblem]:
    found = list(_misfits(tenant, contract, linted))
    if kind and contract.kind != kind:
        found.append(
            document_reading.DocumentProblem(("kind",), f"this is the page of {kind}; a new kind has its own")
        )
        return found
    taken = kind_versions.list_version_names(tenant=tenant, kind=contract.kind)
    if contract.version in taken:
        said = f"{contract.version} is registered already; give the change a new version"
        found.append(document_reading.DocumentProblem(("version",), said))
    elif not versions.is_later(contract.version, versions.highest(taken)):
        said = f"{versions.highest(taken)} is registered; a new version must be later"
        found.append(document_reading.DocumentProblem(("version",), said))
    return found


def _misfits(
    tenant: str, contract: KindDocument, linted: document_checks.Linted
) -> tuple[document_reading.DocumentProblem, ...]:
    """What is wrong with a kind in itself, or among the targets, resources and manifests that there are."""
    return (
        *document_checks.kind_problems(
            contract,
            linted=linted,
            targets=target_endpoints.list_honouring(tenant=tenant),
            resources=ports.list_resource_names(tenant=tenant),
        ),
        *document_checks.monitor_problems(
            contract, manifest_versions.list_monitors_of(tenant=tenant, kind=contract.kind)
        ),
    )


def _unfit(row: PolicyKind) -> Problem | None:
    """What has come between a version and its activation since it was stored."""
    linted = tuple(
        document_reading.DocumentProblem(item.place, item.message) for item in kind_versions.lint_of(row)
    )
    wrong = _misfits(row.tenant, kind_versions.contract_of(row), linted)
    if not wrong:
        return None
    said = f"{document_reading.written(wrong[0].place)}: {wrong[0].message}. Draft a new version."
    return Problem(code=ProblemCode.KIND_UNSOUND, status=409, detail=said)


def _remark(
    source: document_reading.Source, problem: document_reading.DocumentProblem, *, is_wrong: bool
) -> LintMessage:
    return LintMessage(
        line=source.line(problem),
        field=document_reading.written(problem.place),
        message=problem.message,
        is_wrong=is_wrong,
    )


def _append(row: PolicyKind, actor: str, at: datetime, *added: events.Event) -> None:
    ledger.append_to(tenant=row.tenant, stream=actors.SYSTEM, actor=actor, at=at, events=added)
