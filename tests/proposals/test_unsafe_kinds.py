"""A kind in force that today's linter finds dangerous: nothing of it is evaluated until a new version comes.

Such kinds were stored by an older version of the runtime; here they are put in force without its linter.
"""

import io
import time
from collections.abc import Callable

import pytest
from django.core.management import call_command

from audit.access.roles import Role
from escalations.contracts import Action
from escalations.models import Escalation
from escalations.services import deciding, dry_running, evidence_revision
from runtime.contracts.kind_steps import Write
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.problem import Problem
from runtime.contracts.reasons import Reason
from runtime.contracts.verdict import VerdictDocument
from runtime.core import clock
from runtime.flows.models import Flow, Intent, Verdict
from runtime.kernel import writes
from runtime.kernel.gate import pipeline
from runtime.kernel.rules import kind_reads, language, safety
from runtime.proposals.queries import gate_facts, policy_dry_run
from runtime.proposals.services import precondition_check
from runtime.registry.models import PolicyKind
from runtime.registry.services import kinds
from tests.support import factories, gate_cases
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db

# Six and a half minutes, were it evaluated: a hundred times a hundred compilations of a large pattern.
LISTED = "[" + "0," * 100 + "]"
FREEZES = f"{LISTED}.all(x, {LISTED}.all(y, !'aaaa'.matches('\\\\w{{200}}')))"
# The same finding, but over at once.
UNSAFE = "'a'.matches('\\\\w{9}') || true"
FAR_TOO_LONG_S = 5


def unsafe(**fields: object) -> KindDocument:
    return gate_cases.kind(**{"rules": [{"id": "R_FREEZES", "require": FREEZES}], **fields})


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """The runtime before its linter knew; call it for the upgrade."""
    with_it = safety.why_unsafe
    monkeypatch.setattr(safety, "why_unsafe", lambda kind: "")
    return lambda: monkeypatch.setattr(safety, "why_unsafe", with_it)


def tried(draft: KindDocument) -> policy_dry_run.DryRunReport:
    rows = policy_dry_run.list_of_kind(tenant="default", kind=draft.kind)
    return policy_dry_run.rejudge(rows=rows, swap=lambda then: then.model_copy(update={"kind": draft}))


def codes() -> list[str]:
    verdict = VerdictDocument.from_bytes(bytes(Verdict.objects.latest("judged_at").body))
    return [finding.code for finding in verdict.reasons]


def test_a_proposal_is_refused_without_evaluating_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = factories.desk(kind=unsafe(impact=FREEZES + " ? 'LOW_IMPACT' : 'HIGH_IMPACT'"))
    flow = desk.open()
    asked: list[str] = []

    def evaluate(expression: language.Expression, names: object) -> str:
        asked.append(expression.source)
        return "LOW_IMPACT"

    monkeypatch.setattr(language.Expression, "evaluate", evaluate)
    answer = desk.propose(flow)
    assert answer["verdict"] == "REJECT"
    assert codes() == [Reason.KIND_UNSAFE]
    assert [source for source in asked if "(" in source] == []  # the linter reads the texts of patterns


def test_it_is_refused_until_another_version_is_in_force() -> None:
    desk = factories.desk(kind=unsafe())
    began = time.process_time()
    desk.propose(desk.open())
    assert time.process_time() - began < FAR_TOO_LONG_S
    assert codes() == [Reason.KIND_UNSAFE]
    factories.policy_kind(gate_cases.kind(version="1.3.0"))
    assert desk.propose(desk.open())["verdict"] == "ACCEPT"


def test_what_was_judged_before_is_judged_again_as_it_was(before: Callable[[], None]) -> None:
    desk = factories.desk(kind=unsafe(rules=[{"id": "R_SLOW", "require": UNSAFE}]))
    desk.propose(desk.open())
    row = Verdict.objects.select_related("bundle").get()
    before()
    assert safety.why_unsafe(gate_cases.kind()) == ""
    assert pipeline.judge_bytes(bytes(row.input), bytes(row.bundle.body)) == bytes(row.body)


def test_what_was_refused_is_judged_again_without_evaluating() -> None:
    desk = factories.desk(kind=unsafe())
    desk.propose(desk.open())
    row = Verdict.objects.select_related("bundle").get()
    began = time.process_time()
    assert pipeline.judge_bytes(bytes(row.input), bytes(row.bundle.body)) == bytes(row.body)
    assert time.process_time() - began < FAR_TOO_LONG_S


def test_an_accepted_call_is_not_made(before: Callable[[], None]) -> None:
    desk = factories.desk(kind=unsafe(rules=[{"id": "R_SLOW", "require": UNSAFE}]))
    desk.propose(desk.open())
    intent = Intent.objects.get()
    before()
    seen = precondition_check.look(
        flow=intent.flow,
        intent=intent,
        row=intent.proposal.verdict,
        step="order",
        receipts={},
        at=clock.now(),
    )
    assert gate_cases.codes(seen.stale) == [Reason.KIND_UNSAFE]


def test_a_condition_stored_before_there_was_a_bound_is_not_asked(
    before: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    before()
    desk = factories.desk()
    escalation = desk.escalate()
    monkeypatch.setattr("runtime.kernel.rules.condition_linter.lint_conditions", lambda *given: ())
    monkeypatch.setattr(language.Expression, "evaluate", _quick(language.Expression.evaluate))
    factories.decide(escalation, factories.user(), Action.OVERRIDE, conditions=(FREEZES,))
    monkeypatch.undo()
    intent = Intent.objects.get()
    began = time.process_time()
    seen = precondition_check.look(
        flow=intent.flow,
        intent=intent,
        row=intent.proposal.verdict,
        step="order",
        receipts={},
        at=clock.now(),
    )
    assert time.process_time() - began < FAR_TOO_LONG_S
    assert gate_cases.codes(seen.stale) == [Reason.KIND_UNSAFE]


def _quick(evaluate: Callable[..., object]) -> Callable[..., object]:
    return lambda self, names: True if self.source == FREEZES else evaluate(self, names)


def test_facts_that_are_too_many_for_the_kind_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = factories.desk()
    desk.propose(desk.open())
    intent = Intent.objects.get()
    (row,) = policy_dry_run.list_of_kind(tenant="default", kind="ADJUST_POSITION")
    monkeypatch.setattr("runtime.kernel.rules.kind_linter.STOPPING_WORK", 1)
    assert desk.propose(desk.open())["verdict"] == "REJECT"
    newest = Verdict.objects.order_by("-judged_at")[0]
    (finding,) = VerdictDocument.from_bytes(bytes(newest.body)).reasons
    assert finding.code == Reason.KIND_UNSAFE
    assert "its expressions read facts" in finding.message
    seen = precondition_check.look(
        flow=intent.flow,
        intent=intent,
        row=intent.proposal.verdict,
        step="order",
        receipts={},
        at=clock.now(),
    )
    assert gate_cases.codes(seen.stale) == [Reason.KIND_UNSAFE]
    found = policy_dry_run.judge_one(row=row, swap=lambda then: then)
    assert not isinstance(found, str)
    assert gate_cases.codes(found) == [Reason.KIND_UNSAFE]


def test_people_are_told_too(before: Callable[[], None]) -> None:
    desk = factories.desk(kind=unsafe(rules=[{"id": "R_SLOW", "require": UNSAFE}]))
    escalation, olivia = desk.escalate(), factories.user()
    before()
    request = factories.decision_request(escalation, Action.OVERRIDE)
    verdict = dry_running.dry_run(
        tenant="default", escalation_id=escalation.pk, person=factories.person(olivia), request=request
    )
    assert isinstance(verdict, VerdictDocument)
    assert [finding.code for finding in verdict.reasons] == [Reason.KIND_UNSAFE]
    answer = factories.decide(escalation, olivia)
    assert isinstance(answer, Problem)
    assert answer.code in ("GATE_REFUSED", "EVIDENCE_CHANGED", "IMPACT_RAISED")
    assert isinstance(factories.decide(escalation, olivia, Action.ABORT), deciding.DecisionResult | Problem)


def test_drift_scans_and_pages_do_not_evaluate_it(before: Callable[[], None]) -> None:
    desk = factories.desk(kind=unsafe(rules=[{"id": "R_SLOW", "require": UNSAFE}]))
    escalation = desk.escalate()
    before()
    flow = Flow.objects.get(pk=escalation.flow_id)
    kind = gate_facts.get_rules(agent=desk.again(), kind_name="ADJUST_POSITION").kind
    assert kind is not None
    assert safety.why_unsafe(kind).startswith("rules.0.require: the pattern")
    assert gate_facts.get_world(tenant="default", kind=kind, params={}) == {}
    assert kind_reads.paths_read(kind, dict(gate_cases.PARAMS)) == kind_reads.paths_read(kind, {})
    shown = evidence_revision.get_next(
        escalation=Escalation.objects.get(),
        shown=factories.evidence_of(escalation),
        flow=flow,
        agent=desk.again(),
        at=clock.now(),
    )
    assert [item.code for item in shown.findings if item.code] == [Reason.KIND_UNSAFE]
    assert "Adjust" in text_of(sign_in(Role.OPERATOR, name="opa"), f"/escalations/{escalation.pk}/")


def test_trying_it_on_old_proposals_says_so(before: Callable[[], None]) -> None:
    desk = factories.desk()
    desk.propose(desk.open())
    before()
    found = tried(unsafe(version="1.3.0"))
    assert [item.code for change in found.changes for item in change.now_reasons] == [Reason.KIND_UNSAFE]


def test_trying_a_mended_version_on_refused_proposals(before: Callable[[], None]) -> None:
    before()
    desk = factories.desk(kind=unsafe())
    desk.propose(desk.open())
    assert codes() == [Reason.KIND_UNSAFE]
    found = tried(gate_cases.kind(version="1.3.0"))
    assert [change.now.value for change in found.changes] == ["ACCEPT"]


def test_a_receipt_leaves_no_facts_and_each_is_recorded() -> None:
    asked = [Write(fact="order.x", value=UNSAFE)]
    taken = writes.take_none(asked, why=safety.NOT_ASKED)
    assert taken.facts == ()
    assert [(one.fact, one.why) for one in taken.deviations] == [("order.x", safety.NOT_ASKED)]


def test_check_the_overview_and_the_page_name_it() -> None:
    factories.desk(kind=unsafe())
    said = io.StringIO()
    call_command("check", "--database", "default", stderr=said)
    assert "runtime.W002" in said.getvalue()
    ada = sign_in(Role.ADMIN, name="ada")
    assert "ADJUST_POSITION 1.2.0 is not evaluated" in text_of(ada, "/")
    assert "are refused with KIND_UNSAFE" in text_of(ada, "/kinds/ADJUST_POSITION/")
    factories.policy_kind(gate_cases.kind(version="1.3.0"))
    assert "is not evaluated" not in text_of(ada, "/")


def test_it_cannot_be_put_in_force_again() -> None:
    factories.desk(kind=unsafe())
    row = PolicyKind.objects.get()
    factories.policy_kind(gate_cases.kind(version="1.3.0"))
    row.refresh_from_db()
    answer = kinds.VersionedKind(row.tenant, row.kind).may_activate(row, actor="user:1")
    assert isinstance(answer, Problem)
    assert answer.code == "KIND_UNSOUND"
