"""`manage.py docs_fresh [--write]`: check, or write, the pages of docs/ that are generated from code."""

import json
import re
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from inspect import cleandoc
from pathlib import Path
from typing import Any, TypeVar

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from audit import erasure_columns, events
from audit.access import roles
from audit.contracts import catalogue as contracts
from audit.contracts import fields
from dir_console.conformance import catalogue, frameworks, words
from dir_console.conformance.items import Check, Group
from runtime.contracts import problem_codes, reasons
from runtime.kernel import incident_moves, lifecycle, manifest_lint, version_diff
from runtime.kernel.gate import pipeline
from runtime.outward.services import ocsf_classes
from runtime.registry.services import agents

ROOT = Path(settings.BASE_DIR)
State = TypeVar("State", bound=str)
VARIABLE = re.compile(r"^(?:# )?([A-Z][A-Z0-9_]*)=(.*)$")


def page(title: str, about: str, *parts: str) -> str:
    note = "<!-- Generated from code by `make docs`; change the code, not this page. -->"
    return "\n\n".join((f"# {title}", note, about, *parts)) + "\n"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return "\n".join((line(head), line("---" for _ in head), *(line(row) for row in rows)))


def paragraphs(text: str | None) -> list[str]:
    return [" ".join(one.split()) for one in cleandoc(text or "").split("\n\n")]


def event_kinds() -> str:
    """One row for each kind, in the order of the enum; `?` marks a field that may be absent."""

    def row(payload: type[events.Event]) -> tuple[str, ...]:
        fields = (
            f"`{name}`" + ("" if field.is_required() else "?") for name, field in payload.model_fields.items()
        )
        return f"`{payload.kind}`", ", ".join(fields)

    order = list(events.Kind)
    payloads = sorted(every_subclass(events.Event), key=lambda payload: order.index(payload.kind))
    return page(
        "Event kinds",
        "Every kind of ledger entry. Kinds are permanent; fields are only added, with a default (`?`).",
        table(("kind", "payload"), map(row, payloads)),
    )


def every_subclass(base: type[events.Event]) -> set[type[events.Event]]:
    """Payload classes under `base`; one between, without a kind of its own, is passed over."""
    below = set(base.__subclasses__())
    named = {payload for payload in below if "kind" in vars(payload)}
    return named.union(*(every_subclass(payload) for payload in below))


def reason_codes() -> str:
    rows = ((f"`{reason}`", reasons.MEANINGS[reason]) for reason in reasons.Reason)
    return page(
        "Reason codes",
        "Why the runtime refused or escalated. Codes are permanent. A rule of a pack adds its own id.",
        table(("code", "means"), rows),
    )


def problem_list() -> str:
    """A table for each section; a second status is explained by the meaning."""

    def row(code: problem_codes.ProblemCode) -> tuple[str, ...]:
        return f"`{code}`", str(code.status), code.heading, code.meaning

    parts = [
        f"## {section}\n\n"
        + table(
            ("code", "status", "in short", "means"),
            (row(code) for code in problem_codes.ProblemCode if code.section is section),
        )
        for section in problem_codes.Section
    ]
    return page(
        "Problems",
        "A refused call returns a problem document (RFC 9457): `application/problem+json` with a `title`, "
        "`status`, a permanent `code`, a `detail` that says what to do next, `retriable`, and `violations` "
        "that list invalid fields. A page of the console shows the same `detail`. A REJECT verdict is not a "
        "problem: its codes are [reasons](reasons.md).",
        *parts,
    )


def setting_names() -> str:
    """The sections of `.env.example`: each variable with the comment above it."""
    parts: list[str] = []
    rows: list[tuple[str, ...]] = []
    words: list[str] = []

    def flush() -> None:
        if rows:
            parts.append(table(("variable", "default", "means"), list(rows)))
            rows.clear()

    for line in (ROOT / ".env.example").read_text().splitlines():
        if line.startswith("# -- "):
            flush()
            parts.append(f"## {line.removeprefix('# -- ')}")
        elif found := VARIABLE.match(line):
            rows.append((f"`{found[1]}`", f"`{found[2]}`" if found[2] else "none", " ".join(words)))
            words = []
        else:
            words = [*words, line.removeprefix("# ")] if line else []
    flush()
    return page(
        "Settings", "Read from the environment at start; `.env.example` has the same list to copy.", *parts
    )


def diagram(moves: Mapping[State, Iterable[State]]) -> str:
    """A picture of a table of moves; the first state is where everything begins."""
    drawn = [f"    {before} --> {after}" for before, all_after in moves.items() for after in all_after]
    ends = [f"    {state} --> [*]" for state, after in moves.items() if not after]
    first = next(iter(moves))
    return "\n".join(("```mermaid", "stateDiagram-v2", f"    [*] --> {first}", *drawn, *ends, "```"))


def flow_states() -> str:
    return page(
        "States of a flow",
        "Every allowed transition. A transition is a compare-and-swap on the flow's state and version.",
        diagram(lifecycle.MOVES),
        "## States of an incident",
        "People move it, each time with a reason; see [incidents](incidents.md).",
        diagram(incident_moves.MOVES),
    )


def agent_tables() -> str:
    """The moves of an agent's status, and which way each field of a manifest tightens."""
    said = {
        version_diff.Tighter.LOWER: "lower",
        version_diff.Tighter.HIGHER: "higher",
        version_diff.Tighter.FEWER: "fewer",
        version_diff.Tighter.MORE: "more",
    }
    absent = {
        version_diff.MissingMeans.OPEN: "no limit",
        version_diff.MissingMeans.SHUT: "nothing granted",
        version_diff.MissingMeans.NEUTRAL: "neither",
    }
    rows = (
        (f"`{rule.path}`", "false" if True in rule.meaning else said[rule.tighter], absent[rule.absent])
        for rule in manifest_lint.RULES
        if rule.tighter in said
    )
    return page(
        "Statuses of an agent, directions of a manifest",
        "Every allowed status change. Only ACTIVE agents can propose.",
        diagram(agents.MOVES),
        "Which change of a manifest field tightens it; the opposite loosens it. A field that is not "
        "listed is only added, removed or changed. The first matching row applies. The last column says "
        "what an unset field means.",
        table(("field", "tighter when", "not set"), rows),
    )


def gate_checks() -> str:
    """One row for each stage: what its check asks, and what it answers."""

    def row(place: int, stage: pipeline.Stage) -> tuple[str, ...]:
        asks, answers, *_ = paragraphs(stage.check.__doc__)
        return str(place), f"`{stage.name}`", asks, answers, ends[stage.is_integrity]

    ends = {True: "yes", False: "no"}
    rows = (row(place, stage) for place, stage in enumerate(pipeline.STAGES, start=1))
    return page(
        "Checks of the gate, in order",
        "Every finding of a stage is kept; a stage marked in the last column is the last one checked "
        "when it rejects. Any Fail is REJECT, else any Refer is ESCALATE, else ACCEPT.",
        table(("", "stage", "asks", "answers", "stops on reject"), rows),
    )


def permissions() -> str:
    """One row for each permission, one column for each role."""
    rows = (
        (
            f"`{permission}`",
            roles.MEANINGS[permission],
            *("yes" if roles.allows([role], permission) else "" for role in roles.Role),
        )
        for permission in roles.Permission
    )
    return page(
        "Permissions",
        "What each role may do. Every role may read every page; roles add up. Who owns an agent, or has just "
        "written its manifest, cannot decide on it, whatever the role: see [escalations](escalations.md).",
        table(("permission", "what it allows", *roles.Role), rows),
    )


def conformance_items() -> str:
    """What a run tries, item by item, and the tables of two frameworks."""

    def item(check: Check) -> tuple[str, ...]:
        tests = ", ".join(f"`{name}`" for name in check.tests) or "none"
        return f"`{check.id}`", f"{check.paper}: {check.asks}", check.tries, tests

    def requirement(each: frameworks.Requirement) -> tuple[str, ...]:
        served = [*(f"`{name}`" for name in each.served_by), *(f"[{page}]({page}.md)" for page in each.pages)]
        return each.ref, each.asks, each.cover.value, each.how, ", ".join(served) or "none"

    parts = [
        f"## {group}\n\n"
        + table(
            ("item", "asks", "every run tries", "also shown by"),
            (item(check) for check in catalogue.CHECKS if check.group is group),
        )
        for group in Group
    ]
    mapped = [
        f"## {framework.name}\n\n{framework.about} In our own words; no legal advice.\n\n"
        + table(
            ("requirement", "asks for", "here", "how far", "served by"),
            map(requirement, framework.requirements),
        )
        for framework in frameworks.FRAMEWORKS
    ]
    return page("Conformance", words.ABOUT, words.RUNNING, *parts, words.LIMITS, *mapped)


def tamper_matrix() -> str:
    """The table that the tests of `tests/verification/test_tamper_matrix.py` try, group by group."""
    head = (
        "what was changed",
        "server",
        "server, with a kept checkpoint",
        "verifier",
        "and with it",
        "why not",
    )
    parts: list[str] = []
    rows: list[tuple[str, ...]] = []
    source = ROOT / "tests" / "support" / "tamper_matrix.txt"
    for line in [*source.read_text(encoding="utf-8").splitlines(), "#"]:
        if not line.startswith("#"):
            case, flow, server, kept, *packs = (cell.strip() for cell in line.split(" | "))
            told = packs[:2] if flow != "-" else ["not in a pack"] * 2
            rows.append((case, server, kept if kept != server else "the same", *told, *(packs[2:] or [""])))
        elif rows:
            parts.append(table(head, rows))
            rows = []
        if line.startswith("# "):
            parts.append(f"## {line.removeprefix('# ')}")
    return page(
        "Tamper matrix",
        "What the owner of a database may change, one thing at a time, on SQLite and on PostgreSQL, and who "
        "names it: `verify_ledger` (its first finding: fault, stream, number of the entry), `verify_ledger "
        "--from` a checkpoint that was kept elsewhere, and the [verifier](ledger.md#evidence-packs) on a "
        "pack that the tampered database exports, without and with that checkpoint. *named absent* means "
        "that the pack does not hold what was changed and says so. N stands for a number or a digest. "
        "What nobody finds stands here too, with the reason.",
        *parts,
        "## Checkpoints that people kept, side by side",
        "What whoever has the signing key may have shown to one person and not to another, and what the "
        "verifier says of the checkpoints of both, [without a pack](ledger.md#checkpoints-side-by-side): the "
        "code of its first finding, and its exit code.",
        table(("what was done", "first finding", "exit"), kept_checkpoints()),
    )


def kept_checkpoints() -> list[tuple[str, ...]]:
    """What the tests of `tests/audit/packs/test_checkpoints_side_by_side.py` try."""
    source = ROOT / "tests" / "support" / "kept_checkpoints.txt"
    lines = source.read_text(encoding="utf-8").splitlines()
    return [tuple(line.split(" | ")) for line in lines if not line.startswith("#")]


def contract_page(contract: fields.Contract) -> str:
    """One row for each field: what it is made of, and why it may be null."""
    rows = (
        (f"`{field.path}`", field.source, contract.absent(field.path) or "never") for field in contract.fields
    )
    return page(
        f"{contract.title} ({contract.design})",
        f"{contract.about} `GET /api/v1/audit/contracts/{contract.name}/{{id}}` returns it; `{{id}}` is "
        f"{contract.ids}. Its schema is [{contract.name}.schema.json]({contract.name}.schema.json). A name "
        "with a colon is a kind of entry, with the field of its payload; an object is what the digest in "
        "that field stands for, with a JSON Pointer into it.",
        table(("field", "made of", "null when"), rows),
    )


def contract_schema(contract: fields.Contract) -> str:
    return json.dumps(fields.schema_of(contract), indent=2) + "\n"


def ocsf_kinds() -> str:
    """One row for each kind, in the order of the enum."""

    def row(kind: events.Kind) -> tuple[str, ...]:
        mapped = ocsf_classes.of_kind(kind)
        activity = ocsf_classes.activity_name(mapped, kind)
        return (
            f"`{kind}`",
            f"{mapped.of.title} ({mapped.of.value})",
            f"{activity} ({mapped.activity})",
            mapped.severity.name.capitalize(),
            mapped.status.name.capitalize(),
        )

    return page(
        "Kinds of entries in OCSF",
        f"What each kind of ledger entry is for a SIEM, in the schema {ocsf_classes.VERSION}. An incident "
        "has the severity of its entry, and `incident:moved` to `CLOSED` is Close (3). An unknown status is "
        "in the payload, which is whole in `unmapped`. See [sending events out](outward.md#ocsf).",
        table(("Kind", "Class", "Activity", "Severity", "Status"), map(row, events.Kind)),
    )


def erased_columns() -> str:
    """One row for each column: those that an erasure empties, and those that stay."""
    words = [
        (f"`{each.model}`", f"`{column}`", holds)
        for each in erasure_columns.list_words()
        for column, holds in each.columns.items()
    ]
    others = [
        (f"`{each.model}`", f"`{column}`", why)
        for each in erasure_columns.list_others()
        for column, why in each.columns.items()
    ]
    return page(
        "Columns that an erasure empties",
        "Where words of a flow are stored. [Erasing a flow](privacy.md) empties these cells.",
        table(("table", "column", "holds"), words),
        "## Columns that stay",
        "Every other column of texts or bytes, and why it is not emptied with a flow. Columns of fewer than "
        "200 characters hold codes, names and digests, and are not listed.",
        table(("table", "column", "why"), others),
    )


PAGES: dict[str, Callable[[], str]] = {
    "agent-tables.md": agent_tables,
    "checks.md": gate_checks,
    "conformance.md": conformance_items,
    "erased-columns.md": erased_columns,
    "events.md": event_kinds,
    "ocsf.md": ocsf_kinds,
    "permissions.md": permissions,
    "problems.md": problem_list,
    "reasons.md": reason_codes,
    "settings.md": setting_names,
    "states.md": flow_states,
    "tamper-matrix.md": tamper_matrix,
    **{f"contracts/{name}.md": partial(contract_page, each) for name, each in contracts.CONTRACTS.items()},
    **{
        f"contracts/{name}.schema.json": partial(contract_schema, each)
        for name, each in contracts.CONTRACTS.items()
    },
}


class Command(BaseCommand):
    help = "List the stale generated pages of docs/; with --write, regenerate them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--write", action="store_true", help="regenerate the stale pages")

    def handle(self, *args: Any, **options: Any) -> None:
        stale = []
        for name, draw in PAGES.items():
            path = ROOT / "docs" / name
            wanted = draw()
            if path.exists() and path.read_text() == wanted:
                continue
            stale.append(f"docs/{name}")
            if options["write"]:
                path.parent.mkdir(exist_ok=True)
                path.write_text(wanted)
        if stale and not options["write"]:
            raise CommandError(f"stale: {', '.join(stale)}. Run `make docs` and commit the result.")
