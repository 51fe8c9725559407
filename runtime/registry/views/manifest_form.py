"""The form of a manifest: kinds, limits beside what was proposed, budgets, rights and hours."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.http import QueryDict

from audit.events import Kind
from runtime.contracts import recorded_only
from runtime.contracts.autonomy import DEFAULT_RULE
from runtime.contracts.calibration import ConfidenceUse
from runtime.contracts.kind_types import OnFail
from runtime.contracts.manifest import MemoryAccess, Weekday
from runtime.contracts.policy_kind import KindDocument
from runtime.core.views import labels
from runtime.kernel import units
from runtime.kernel.autonomy import Signal
from runtime.kernel.rules import kind_linter, kind_units
from runtime.kernel.units import Unit
from runtime.proposals.queries import limit_usage
from runtime.proposals.queries.limit_usage import LimitUsage
from runtime.registry.models import Agent
from runtime.registry.queries import agent_list, granted_kinds, recorded_versions
from runtime.registry.views.document_form import DocumentForm, Rows, Section
from runtime.registry.views.form_controls import (
    SHOWN_IN,
    Amount,
    Checkboxes,
    Choice,
    Control,
    DecimalText,
    Flag,
    Lines,
    Number,
    NumberLines,
    ScalarLines,
    TrueOrFalse,
    WholeNumber,
)
from runtime.registry.views.version_editor import FormWithFigures

_ACCESS: Final = (
    (MemoryAccess.READ.value, "read"),
    (MemoryAccess.WRITE.value, "write"),
    (MemoryAccess.READ_WRITE.value, "read and write"),
)
_ON_FAIL: Final = ((OnFail.ESCALATE.value, "ask a person"), (OnFail.REJECT.value, "reject"))
_LABELS_HINT: Final = "Labels say what the agent has received. Rules can only restrict it."
_AUTONOMY_HINT: Final = "What the agent did lately makes a risk score, which lowers its level."
_LIMITS_HINT: Final = (
    "Below each limit: the values of the agent's last 200 proposals that it applies to. Half of them were at"
    " most p50, 95 of 100 at most p95."
)


def build(agent: Agent, base: dict[str, Any], posted: QueryDict | None = None) -> FormWithFigures:
    """Return the form of a manifest, with what a person has sent of it.

    The limits are those that the document has and those that the chosen kinds read.
    """
    chosen = base.get("policy_kinds") if posted is None else posted.getlist("policy_kinds")
    offered = agent_list.list_kinds(tenant=agent.tenant)
    # A kind that does not match the ledger has a page that says so; here it has no limits.
    kinds = {
        row.kind: granted_kinds.contract_of(row)
        for row in offered
        if isinstance(chosen, list) and row.kind in chosen
        if recorded_versions.compare_kind(row, by=Kind.KIND_REGISTERED) is None
    }
    measures = kind_units.of_manifest_limits(kinds.values())
    titles = {row.kind: row.title for row in offered}
    # A limit that is entered in one unit stays so: another chosen kind may count it in another one.
    before = f"{SHOWN_IN}limits."
    sent = () if posted is None else posted.items()
    shown_in = measures | {
        name.removeprefix(before): str(unit) for name, unit in sent if name.startswith(before)
    }
    form = DocumentForm.of(base, list(_sections(base, titles, kinds, measures, shown_in)), posted)

    def usage() -> dict[str, LimitUsage]:
        used = limit_usage.of_manifest(agent=agent, kinds=kinds)
        return {f"limits.{name}": found for name, found in used.items()}

    return FormWithFigures(
        form=form,
        usage=usage,
        measures={f"limits.{name}": unit for name, unit in measures.items()},
    )


def _sections(
    base: Mapping[str, Any],
    titles: Mapping[str, str],
    kinds: Mapping[str, KindDocument],
    measures: Mapping[str, str],
    shown_in: Mapping[str, str],
) -> Iterable[Section]:
    yield Section(
        title="Policy kinds",
        parts=[
            Control(
                place=("version",), label="Version", mono=True, hint="Higher than every earlier version."
            ),
            Checkboxes(
                place=("policy_kinds",),
                label="May propose",
                hint="Check after a change: the limits that a kind reads are then listed below.",
                options=list(titles),
                notes=titles,
                mono=True,
            ),
        ],
    )
    yield Section(title="Limits", hint=_LIMITS_HINT, parts=list(_limits(base, kinds, measures, shown_in)))
    yield Section(title="Budgets and rates", hint="An empty field sets none.", parts=_budgets())
    yield Section(title="Rights", parts=_rights())
    yield Section(
        title="Expected hours",
        hint="An agent that is silent in these hours is reported.",
        parts=_hours(),
    )
    yield Section(title="Labels", hint=_LABELS_HINT, parts=_labels())
    yield Section(title="Autonomy", hint=_AUTONOMY_HINT, parts=list(_autonomy()))
    yield Section(
        title="Recorded fields",
        hint=f"These are {recorded_only.WORDS}.",
        parts=[
            Control(place=("model_profile",), label="Model profile", mono=True),
            Control(place=("prompt_bundle_hash",), label="Prompt bundle", mono=True),
            Control(place=("evaluator_suite",), label="Evaluator suite", mono=True),
        ],
    )


def _limits(
    base: Mapping[str, Any],
    kinds: Mapping[str, KindDocument],
    measures: Mapping[str, str],
    shown_in: Mapping[str, str],
) -> Iterable[Control]:
    """One field for each limit that the document has or a kind reads."""
    readers: dict[str, list[str]] = {}
    for name, kind in sorted(kinds.items()):
        for limit in kind_linter.limits_read(kind):
            readers.setdefault(limit, []).append(name)
    compared = {
        limit.limit.strip().removeprefix(kind_units.MANIFEST_LIMITS)
        for kind in kinds.values()
        for limit in kind.limits
    }
    held = base.get("limits")
    stated = held if isinstance(held, dict) else {}
    for name in (*stated, *sorted(readers.keys() - stated.keys())):
        by = readers.get(name)
        hint = f"Read by {', '.join(by)}." if by else "No chosen kind reads it."
        place, value = ("limits", name), stated.get(name)
        if isinstance(value, bool):
            yield TrueOrFalse(place=place, label=name, hint=hint, mono=True)
        elif isinstance(value, list):
            yield ScalarLines(place=place, label=name, hint=f"{hint} One value in each line.", mono=True)
        else:
            measure = shown_in.get(name, "")
            yield Amount(
                place=place,
                label=name,
                hint=hint,
                mono=True,
                measure=measure,
                # An amount that was shown as it is stored counts what the kind names.
                unit=_name_of(measure) if measure else measures.get(name, ""),
                is_free=name not in compared and not isinstance(value, int | float),
            )


def _budgets() -> list[Control]:
    return [
        Number(
            place=("escalate_below_confidence",),
            label="Escalates below confidence",
            hint="From 0 to 1. A person is asked where the agent states less.",
        ),
        Choice(
            place=("confidence",),
            label="Confidence that counts",
            options=((ConfidenceUse.CALIBRATED.value, "calibrated, where a map is active"),),
            blank="as it is stated",
            hint="A calibration map can only lower what the agent states.",
        ),
        WholeNumber(
            place=("escalations_per_hour",),
            label="Escalation tokens",
            unit="per hour",
            hint="How often it may ask a person. Without a number, 3.",
        ),
        WholeNumber(place=("proposals_per_minute",), label="Proposals", unit="per minute"),
        WholeNumber(
            place=("max_intent_retries",),
            label="Attempts",
            unit="per flow",
            hint="Rejected proposals until the flow ends. Without a number, 3.",
        ),
        WholeNumber(place=("compute", "tokens"), label="Tokens", unit="per flow"),
        DecimalText(place=("compute", "cost_usd"), label="Cost per flow", unit="USD"),
        WholeNumber(place=("compute", "tool_calls"), label="Tool calls", unit="per flow"),
        WholeNumber(place=("compute", "wall_clock_s"), label="Duration of a flow", unit="s"),
        Flag(
            place=("waive_tier3_review",),
            label="Without a person in tier T3",
            hint="Proposals of kinds in the highest risk tier need no person.",
        ),
    ]


def _rights() -> list[Control | Rows]:
    return [
        Rows(
            member="scope",
            title="Parameters limited to",
            hint="The agent may use only these values of a parameter.",
            add="Add a parameter",
            key="parameter",
            columns=[
                Control(place=("parameter",), label="Parameter", mono=True),
                ScalarLines(place=("values",), label="Values", hint="One in each line.", mono=True, rows=2),
            ],
        ),
        Lines(
            place=("subscribes",),
            label="Reads facts",
            hint="One in each line: price.AAPL, or price. for all of them. Empty: what its kinds need.",
            mono=True,
            rows=4,
        ),
        Rows(
            member="memory_scopes",
            title="Memory",
            hint="The memory that the agent may use.",
            add="Add a memory scope",
            bare="scope",
            columns=[
                Control(place=("scope",), label="Scope", mono=True),
                Choice(place=("access",), label="Access", options=_ACCESS, blank="read (default)"),
            ],
        ),
        Lines(
            place=("may_delegate_to",),
            label="Can delegate to",
            hint="The id of one agent in each line.",
            mono=True,
            rows=2,
        ),
    ]


def _hours() -> list[Control]:
    return [
        WholeNumber(
            place=("silent_after_s",),
            label="Silent after",
            unit="s",
            hint="Empty: its silence is not reported.",
        ),
        Control(place=("hours", "opens"), label="From", hint="Such as 08:00."),
        Control(place=("hours", "closes"), label="To", hint="Such as 17:30."),
        Control(place=("hours", "zone"), label="Time zone", hint="Such as UTC or Europe/Zurich."),
        Checkboxes(
            place=("hours", "days"),
            label="Days",
            hint="None: every day.",
            options=[day.value for day in Weekday],
        ),
    ]


def _labels() -> list[Control | Rows]:
    return [
        Rows(
            member="label_rules",
            title="Once it is labelled",
            hint="What is asked of the agent from when it has one of the labels.",
            add="Add a rule",
            columns=[
                Control(place=("id",), label="Id", mono=True),
                Lines(
                    place=("after",), label="After the labels", hint="One in each line.", mono=True, rows=2
                ),
                Lines(
                    place=("kinds",),
                    label="Policy kinds",
                    hint="One in each line. Empty: whatever has an effect.",
                    mono=True,
                    rows=2,
                ),
                Choice(place=("on_fail",), label="Then", options=_ON_FAIL, blank="ask a person (default)"),
                Control(place=("message",), label="Message", wide=True),
            ],
        ),
        Rows(
            member="labels_end_after_s",
            title="Labels that end by themselves",
            hint="Counted from when the agent last received the label.",
            add="Add a label",
            key="label",
            columns=[
                Control(place=("label",), label="Label", mono=True),
                WholeNumber(place=("seconds",), label="Ends after", unit="s"),
            ],
        ),
    ]


def _autonomy() -> Iterable[Control]:
    yield WholeNumber(
        place=("autonomy", "supervised_at"),
        label="Supervised from a score of",
        hint=f"Without a number, {DEFAULT_RULE.supervised_at}. A score never reaches 101.",
    )
    yield WholeNumber(
        place=("autonomy", "read_only_at"),
        label="Read-only from",
        hint=f"Without a number, {DEFAULT_RULE.read_only_at}.",
    )
    yield WholeNumber(
        place=("autonomy", "window_s"),
        label="Counted over",
        unit="s",
        hint=f"Without a number, {DEFAULT_RULE.window_s}.",
    )
    for signal, words in labels.SIGNALS.items():
        yield from _label_weights(words) if signal == Signal.LABELS else _weight(signal, words)


def _weight(signal: str, words: str) -> Iterable[Control]:
    usual = getattr(DEFAULT_RULE, signal)
    yield WholeNumber(
        place=("autonomy", signal, "points"),
        label=f"{words}: points each",
        hint=f"Set the field after it too, or leave both empty for {usual.points} and {usual.most}.",
    )
    yield WholeNumber(place=("autonomy", signal, "most"), label=f"{words}: at most")


def _label_weights(words: str) -> Iterable[Control]:
    usual = DEFAULT_RULE.labels
    listed = ", ".join(f"{label}: {points}" for label, points in usual.points.items())
    yield NumberLines(
        place=("autonomy", str(Signal.LABELS), "points"),
        label=f"{words}: points each",
        hint=f"A label and its points in each line. Without any line, {listed}.",
        mono=True,
    )
    yield WholeNumber(
        place=("autonomy", str(Signal.LABELS), "most"),
        label=f"{words}: at most",
        hint=f"Without a number, {usual.most}.",
    )


def _name_of(measure: str) -> str:
    """The unit in which people enter an amount: `USD` for `cents USD`."""
    parsed = units.parse(measure) if measure else None
    return parsed.name if isinstance(parsed, Unit) else ""
