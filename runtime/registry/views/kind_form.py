"""The form of a policy kind: its words, what is judged and by whom, and its limits beside past values."""

from typing import Any, Final

from django.http import QueryDict
from pydantic import ValidationError

from audit import canonical
from runtime.contracts.kind_types import OnFail, Severity
from runtime.contracts.policy_kind import CONFIDENCE_THRESHOLDS, KindDocument, OnUnknown, RiskTier
from runtime.kernel.rules import kind_units
from runtime.proposals.queries import limit_usage
from runtime.proposals.queries.limit_usage import LimitUsage
from runtime.registry.views.document_form import DocumentForm, Rows, Section
from runtime.registry.views.form_controls import Choice, Control, Flag, TextArea, WholeNumber
from runtime.registry.views.version_editor import FormWithFigures

_TIERS: Final = tuple(
    (tier.value, f"{tier.value} {words}: confidence {CONFIDENCE_THRESHOLDS[tier]}")
    for tier, words in (
        (RiskTier.T0, "routine"),
        (RiskTier.T1, "moderate"),
        (RiskTier.T2, "elevated"),
        (RiskTier.T3, "highest, always a person"),
    )
)
_OUTCOMES: Final = ((OnFail.REJECT.value, "reject"), (OnFail.ESCALATE.value, "ask a person"))
_UNKNOWN: Final = (
    (OnUnknown.PERSON.value, "ask a person"),
    (OnUnknown.PROBE.value, "ask the target"),
    (OnUnknown.RESEND.value, "send it again"),
)


def build(tenant: str, base: dict[str, Any], posted: QueryDict | None = None) -> FormWithFigures:
    """Return the form of a policy kind, with what a person has sent of it."""
    form = DocumentForm.of(base, _SECTIONS, posted)
    # A draft of which no kind can be made yet has the figures of the document that it began with.
    document = form.document()
    kind = _contract(document) or _contract(base)
    if kind is None:
        return FormWithFigures(form=form, usage=dict, measures={})
    by_id = {limit.id: limit for limit in kind.limits}
    fields = {
        f"limits.{key}.limit": by_id[name]
        for key, name in form.ids_of_rows("limits", "id").items()
        if name in by_id
    }

    def usage() -> dict[str, LimitUsage]:
        used = limit_usage.of_kind(tenant=tenant, kind=kind)
        return {name: used[limit.id] for name, limit in fields.items()}

    return FormWithFigures(
        form=form,
        usage=usage,
        measures={name: kind_units.of_limit(kind, limit) for name, limit in fields.items()},
    )


def _contract(document: dict[str, Any]) -> KindDocument | None:
    try:
        return KindDocument.from_bytes(canonical.encode(document))
    except (ValidationError, canonical.CanonicalError):
        return None


def _expression(name: str, label: str, hint: str = "", rows: int = 2) -> Control:
    return TextArea(place=(name,), label=label, hint=hint, mono=True, rows=rows)


def _named(label: str = "ID", hint: str = "") -> Control:
    return Control(place=("id",), label=label, hint=hint, mono=True)


_MESSAGE: Final = Control(
    place=("message",), label="Message", hint="What a person reads where it fails.", wide=True
)

_SECTIONS: Final = (
    Section(
        title="Kind",
        parts=[
            Control(place=("kind",), label="Name", mono=True, hint="Capitals, digits and _."),
            Control(
                place=("version",), label="Version", mono=True, hint="Higher than every earlier version."
            ),
            Control(place=("title",), label="Title", wide=True),
            TextArea(place=("description",), label="Description"),
            Control(place=("category",), label="Category", mono=True, hint="Recorded, not enforced."),
            _expression("effect", "Effect", "One sentence; {amount_cents|cents} stands for a parameter."),
        ],
    ),
    Section(
        title="Judgement",
        parts=[
            Choice(place=("risk_tier",), label="Risk tier", options=_TIERS, blank="choose one"),
            _expression("impact", "Impact", "It gives 'LOW_IMPACT', 'HIGH_IMPACT' or 'CRITICAL'."),
            Flag(place=("reversible",), label="Reversible", hint="What it does can be undone."),
            Flag(
                place=("confidence_waiver",),
                label="Without a stated confidence",
                hint="Its proposals need no confidence.",
            ),
            Choice(
                place=("on_unknown",),
                label="After an unknown result",
                options=_UNKNOWN,
                blank="ask a person (default)",
            ),
        ],
    ),
    Section(
        title="Limits",
        hint="Below each maximum: the values of the last 200 proposals of this kind. Half of them were at"
        " most p50, 95 of 100 at most p95.",
        parts=[
            Rows(
                member="limits",
                title="Limits",
                hint="A value above its maximum is not accepted.",
                add="Add a limit",
                columns=[
                    _named(),
                    Control(
                        place=("unit",), label="Unit", hint="Only for a calculated value, such as cents USD."
                    ),
                    Choice(
                        place=("on_exceed",),
                        label="Above it",
                        options=_OUTCOMES,
                        blank="ask a person (default)",
                    ),
                    _expression("value", "Value", "Such as params.amount_cents."),
                    _expression("limit", "Maximum", "Such as manifest.limits.max_amount_cents, or a number."),
                    _MESSAGE,
                ],
            )
        ],
    ),
    Section(
        title="Rules",
        parts=[
            Rows(
                member="rules",
                title="Rules",
                hint="Each must be exactly true.",
                add="Add a rule",
                columns=[
                    _named(hint="The reason code of its finding, such as R_MARKET_OPEN."),
                    Choice(
                        place=("on_fail",), label="Otherwise", options=_OUTCOMES, blank="reject (default)"
                    ),
                    Choice(
                        place=("severity",),
                        label="Severity",
                        hint="Recorded, not enforced.",
                        options=[(item.value, item.value.lower()) for item in Severity],
                        blank="none",
                    ),
                    _expression("require", "Requires"),
                    _MESSAGE,
                ],
            ),
            Rows(
                member="constraints",
                title="Constraints",
                hint="The agent's own bounds against current facts, checked again before each call.",
                add="Add a constraint",
                columns=[_named(), _expression("require", "Requires"), _MESSAGE],
            ),
        ],
    ),
    Section(
        title="Facts and resources",
        parts=[
            Rows(
                member="depends_on",
                title="Depends on",
                hint="Facts whose change makes a proposal outdated.",
                add="Add a fact",
                bare="fact",
                columns=[
                    Control(place=("fact",), label="Fact", mono=True, hint="Such as price.${params.symbol}."),
                    _expression("unless", "Unless", "True where a change does not matter."),
                    Control(place=("unit",), label="Unit", hint="Such as cents USD."),
                ],
            ),
            Rows(
                member="predicts",
                title="Expected changes",
                hint="The value that a fact is expected to have afterwards.",
                add="Add a change",
                columns=[
                    Control(place=("fact",), label="Fact", mono=True),
                    _expression("value", "Value afterwards"),
                    _expression("unless", "Unless", "True where a change of the fact does not matter."),
                    Control(place=("unit",), label="Unit"),
                ],
            ),
            Rows(
                member="figures",
                title="Calculated parameters",
                hint="The runtime calculates them too; the greater value counts.",
                add="Add a parameter",
                columns=[
                    Control(place=("param",), label="Parameter", mono=True),
                    _expression("value", "Calculated as"),
                ],
            ),
            Rows(
                member="claims",
                title="Resources",
                hint="How much of a resource's capacity the action takes.",
                add="Add a resource",
                columns=[
                    Control(place=("resource",), label="Resource", mono=True),
                    _expression("amount", "Amount"),
                ],
            ),
        ],
    ),
    Section(
        title="People and time",
        hint="An empty field has the default of the impact.",
        parts=[
            WholeNumber(place=("sla_s",), label="Time to decide", unit="s"),
            WholeNumber(
                place=("approvals",), label="People who must agree", hint="1 or 2. CRITICAL always needs two."
            ),
            WholeNumber(
                place=("retention_days",),
                label="Words are kept for",
                unit="days",
                hint="After that the words of an ended flow are erased, unless a rule keeps them.",
            ),
            WholeNumber(
                place=("reading_s",),
                label="Reading time",
                unit="s",
                hint="Who decides faster is asked what was checked.",
            ),
            WholeNumber(
                place=("undo_s",),
                label="Time to undo",
                unit="s",
                hint="How long a decision can be taken back, at most 300 s.",
            ),
            WholeNumber(
                place=("cooling_s",),
                label="Wait of CRITICAL",
                unit="s",
                hint="How long a decision waits before anything runs, at most 120 s.",
            ),
        ],
    ),
)
