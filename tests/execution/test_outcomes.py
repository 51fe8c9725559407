"""The kind's own outcome: asked of recorded receipts, and never told in the place of the effect."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pytest_django.fixtures import Settings

from audit import canonical, queries
from audit.access.roles import Role
from audit.models import DecisionRecord, LedgerEntry, Payload, RecordTerm
from audit.verification import findings
from escalations.contracts import Action
from escalations.models import Escalation
from escalations.services import deciding
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import FlowState, IntentState, OutcomeStatus
from runtime.execution.services import attempting
from runtime.execution.services.attempting import AttemptStatus
from runtime.flows.models import Outcome
from runtime.proposals.queries import flow_replay
from runtime.proposals.queries.replay_results import Change, ReplayDifference, ReplayEqual
from runtime.resources.models import Reservation
from runtime.state.models import FactVersion
from tests.support import exported_packs, factories, fake_target, misbehaving_targets, trading_desk
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
FILLED = b'{"status":"FILLED","price":120,"account":"Jane Doe"}'
ODD = b'{"status":"HALTED","price":120}'
SPEC = """
    allowed_outcomes: [filled, partly]
    outcome: "receipt.status == 'FILLED' ? 'filled' : receipt.status == 'PART' ? 'partly' : receipt.status"
    outputs: {price: receipt.price, paid: "receipt.price * params.quantity"}
    outputs_schema:
      type: object
      properties: {price: {type: integer, maximum: 1000}, paid: {type: integer}}
      required: [price, paid]
    claims: [{resource: cash, amount: "10"}]
    impact:"""


def found_by_verify() -> list[str]:
    """What `verify_ledger` finds; the people of these tests were never recorded."""
    told = (item.detail for item in findings.verify_all().findings)
    return [detail for detail in told if "the user" not in detail]


@contextmanager
def desk_at(
    body: bytes, monkeypatch: pytest.MonkeyPatch, *, spec: str = SPEC, writes: str = ""
) -> Iterator[tuple[trading_desk.Desk, misbehaving_targets.StandIn]]:
    """A desk whose target answers with this receipt."""
    text = trading_desk.PACK.replace("\n    impact:", spec, 1)
    text = text.replace("path: /orders}}", f"path: /orders}}{writes}}}")
    text = text.replace("targets:", "resources: [{name: cash, capacity: 100, unit: pcs}]\ntargets:")
    monkeypatch.setattr(trading_desk, "PACK", text)
    with misbehaving_targets.stand_in(misbehaving_targets.answer(200, body)) as target:
        yield trading_desk.open_desk(base_url=target.base_url), target
    assert found_by_verify() == []


@pytest.fixture(autouse=True)
def _loopback(settings: Settings) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]


def attempt(intent_id: UUID) -> attempting.AttemptResult:
    return attempting.attempt(intent_id, owner=trading_desk.OWNER)


def record(intent_id: UUID) -> dict[str, Any]:
    """The newest record of the flow."""
    row = DecisionRecord.objects.filter(dfid=trading_desk.intent(intent_id).flow_id).latest("seq")
    told: dict[str, Any] = canonical.decode(bytes(row.body))
    return told


def deviations(intent_id: UUID) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = canonical.decode(bytes(Outcome.objects.get(pk=intent_id).deviations))
    return found


def named(intent_id: UUID) -> list[dict[str, Any]]:
    stream = str(trading_desk.intent(intent_id).flow_id)
    rows = LedgerEntry.objects.filter(stream=stream, kind="outcome:named").order_by("seq")
    return [row.payload for row in rows]


def asked(intent_id: UUID) -> Escalation:
    return Escalation.objects.get(intent=intent_id)


def decide(intent_id: UUID, action: Action, **fields: Any) -> deciding.DecisionResult | Problem:
    return factories.decide(asked(intent_id), factories.user(f"someone{action}".lower()), action, **fields)


def replayed(intent_id: UUID) -> Any:
    dfid = trading_desk.intent(intent_id).flow_id
    return flow_replay.replay(tenant=trading_desk.TENANT, dfid=dfid)


def test_the_record_has_the_kinds_own_word_and_the_outputs_behind_a_commitment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with desk_at(FILLED, monkeypatch) as (office, _):
        intent_id = office.accept()
        assert attempt(intent_id).status is AttemptStatus.SUCCEEDED
        told = record(intent_id)
        assert (told["status"], told["outputs"]["outcome"]) == ("DECIDED", "filled")
        result = told["outputs"]["result"]
        assert {name: result[name] for name in ("outcome", "outputs", "findings")} == {
            "outcome": "filled",
            "outputs": ["paid", "price"],
            "findings": [],
        }
        bodies = queries.list_bodies(tenant=trading_desk.TENANT, commitments=[result["commitment"]])
        assert bodies[result["commitment"]] == b'{"paid":240,"price":120}'
        # Neither what a target said nor a value of it stands in a record or an entry.
        assert b"Jane" not in canonical.encode(told) + canonical.encode(named(intent_id))
        assert b":240" not in canonical.encode(named(intent_id))
        _, outcome = trading_desk.told(intent_id)[0]
        assert (outcome["outcome"], outcome["outputs"]) == ("filled", {"paid": 240, "price": 120})
        assert deviations(intent_id) == []
        terms = RecordTerm.objects.filter(name="outcome", value="filled")
        assert terms.count() == 1
        assert isinstance(replayed(intent_id), ReplayEqual)


def test_an_outcome_that_is_not_allowed_calls_a_person_and_hides_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writes = ', writes: [{fact: order.price, value: "receipt.price"}]'
    with desk_at(ODD, monkeypatch, writes=writes) as (office, target):
        intent_id = office.accept()
        assert attempt(intent_id).status is AttemptStatus.WITH_PERSON
        assert trading_desk.states(intent_id) == (IntentState.WITH_PERSON, FlowState.ESCALATED)
        case = asked(intent_id)
        assert (case.family, case.reason) == ("OPERATIONAL", "OUTCOME_NOT_ALLOWED")
        (found,) = named(intent_id)
        assert found["outcome"] is None
        assert found["findings"] == [{"code": "OUTCOME_NOT_ALLOWED", "place": "outcome"}]
        # The effect stands: the fact that it left is written, the receipt is in the ledger, the call is done.
        assert FactVersion.objects.get(path="order.price").version == 1
        assert trading_desk.attempts(intent_id) == ["SUCCEEDED"]
        told = record(intent_id)
        assert (told["status"], told["outputs"]["outcome"]) == ("ESCALATED", "escalated")
        assert told["outputs"]["result"]["findings"] == ["OUTCOME_NOT_ALLOWED"]
        assert told["tool_lineage"][0]["result"] == "SUCCEEDED"
        assert found_by_verify() == []
        page = text_of(sign_in(Role.OPERATOR), f"/escalations/{case.pk}/")
        assert "HALTED" in page[page.index('name="receipt"') :][:400]
        assert "OUTCOME_NOT_ALLOWED" in page
        # What is refused for a step that took effect is not offered in words either.
        assert "retries this step" not in page
        for action in (Action.RESUME, Action.MODIFY):
            refused = decide(intent_id, action, params={"symbol": "ABC", "quantity": 1})
            assert isinstance(refused, Problem)
            assert refused.code in {ProblemCode.RECEIPT_RECORDED, ProblemCode.STEPS_DONE}
        done = decide(intent_id, Action.MARK_DONE, receipt={"status": "FILLED", "price": 120})
        assert not isinstance(done, Problem), done
        assert trading_desk.states(intent_id) == (IntentState.DONE, FlowState.CLOSED)
        told = record(intent_id)
        assert (told["status"], told["outputs"]["outcome"]) == ("DECIDED", "filled")
        assert FactVersion.objects.filter(path="order.price").count() == 1
        assert len(target.seen) == 1
        assert isinstance(replayed(intent_id), ReplayEqual)


def test_what_a_person_says_of_it_is_asked_too_and_ends_the_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    with desk_at(ODD, monkeypatch) as (office, _):
        intent_id = office.accept()
        attempt(intent_id)
        done = decide(intent_id, Action.MARK_DONE, receipt={"status": "HALTED", "price": 120})
        assert not isinstance(done, Problem), done
        assert trading_desk.states(intent_id) == (IntentState.DONE, FlowState.CLOSED)
        wrong = deviations(intent_id)[-1]
        assert (wrong["code"], wrong["observed"]) == ("OUTCOME_NOT_ALLOWED", "HALTED")
        assert record(intent_id)["outputs"]["outcome"] == "succeeded"
        assert Escalation.objects.filter(intent=intent_id).count() == 1


def test_an_abort_afterwards_says_that_the_effect_happened_and_uses_up_what_was_reserved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with desk_at(ODD, monkeypatch) as (office, _):
        intent_id = office.accept()
        attempt(intent_id)
        assert not isinstance(decide(intent_id, Action.ABORT), Problem)
        assert trading_desk.states(intent_id) == (IntentState.FAILED, FlowState.ABORTED)
        _, outcome = next(item for item in trading_desk.told(intent_id) if item[0] == "EXECUTION_OUTCOME")
        assert (outcome["status"], outcome["effect"]) == ("FAILED", "HAPPENED")
        assert Reservation.objects.get(flow=trading_desk.intent(intent_id).flow).state == "COMMITTED"
        assert isinstance(replayed(intent_id), ReplayEqual)


@pytest.mark.parametrize(
    ("body", "places"),
    [
        (b'{"status":"FILLED","price":5000}', {"outputs_schema"}),
        (b'{"status":"FILLED"}', {"outputs.paid"}),
        (b'{"status":7,"price":1}', {"outcome"}),
        (b"{}", {"outcome", "outputs.paid"}),
    ],
)
def test_outputs_that_do_not_fit_and_what_cannot_be_worked_out_are_findings(
    body: bytes, places: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk_at(body, monkeypatch) as (office, _):
        intent_id = office.accept()
        assert attempt(intent_id).status is AttemptStatus.WITH_PERSON
        (found,) = named(intent_id)
        assert {item["place"] for item in found["findings"]} == places
        assert (found["outputs"], found["outputs_commitment"]) == ([], None) or places == {"outcome"}


def test_without_outputs_of_its_own_the_receipt_must_fit_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = SPEC.replace('    outputs: {price: receipt.price, paid: "receipt.price * params.quantity"}\n', "")
    with desk_at(b'{"status":"FILLED","price":1}', monkeypatch, spec=spec) as (office, _):
        intent_id = office.accept()
        assert attempt(intent_id).status is AttemptStatus.WITH_PERSON
        assert named(intent_id)[0]["outcome"] == "filled"
        assert asked(intent_id).reason == "OUTPUTS_INVALID"


def test_a_failure_has_the_runtimes_word_and_names_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with desk_at(FILLED, monkeypatch) as (office, _):
        intent_id = office.accept()
        with misbehaving_targets.stand_in(misbehaving_targets.answer(422)) as refusing:
            trading_desk.place_target(refusing.base_url)
            assert attempt(intent_id).status is AttemptStatus.FAILED
        assert named(intent_id) == []
        assert record(intent_id)["outputs"]["outcome"] == "failed"
        assert "result" not in record(intent_id)["outputs"]


def test_a_kind_without_an_outcome_writes_what_it_always_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    with desk_at(ODD, monkeypatch, spec="\n    allowed_outcomes: [filled]\n    impact:") as (office, _):
        intent_id = office.accept()
        assert attempt(intent_id).status is AttemptStatus.SUCCEEDED
        assert "outcome:named" not in trading_desk.kinds(intent_id)
        told = record(intent_id)
        assert (told["outputs"]["outcome"], "result" in told["outputs"]) == ("succeeded", False)
        assert "named" not in told["flow"]


STEPS = """
    allowed_outcomes: [shipped, stuck]
    outcome: "steps.pay.number < 10 && receipt.path == '/ship' ? WORD : 'stuck'"
    impact:"""


@pytest.mark.parametrize("word", ["shipped", "lost"])
def test_of_several_steps_the_last_receipt_is_asked_with_those_before_it(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = STEPS.replace("WORD", f"'{word}'")
    monkeypatch.setattr(trading_desk, "PACK", fake_target.pack().replace("\n    impact:", spec, 1))
    with fake_target.opened() as book:
        intent_id = trading_desk.open_desk(base_url=book.base_url).accept()
        last = fake_target.walk(intent_id)[-1]
        if word == "shipped":
            assert record(intent_id)["outputs"]["outcome"] == "shipped"
        else:
            assert last == AttemptStatus.WITH_PERSON
            done = decide(intent_id, Action.MARK_DONE, receipt={"path": "/elsewhere", "number": 3})
            assert not isinstance(done, Problem), done
            assert record(intent_id)["outputs"]["outcome"] == "stuck"
        assert Outcome.objects.get(pk=intent_id).status == OutcomeStatus.SUCCEEDED
        assert isinstance(replayed(intent_id), ReplayEqual)
        book.check()
    assert found_by_verify() == []


def test_an_abort_of_several_undoes_what_can_be_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = STEPS.replace("WORD", "'lost'")
    monkeypatch.setattr(trading_desk, "PACK", fake_target.pack().replace("\n    impact:", spec, 1))
    with fake_target.opened() as book:
        intent_id = trading_desk.open_desk(base_url=book.base_url).accept()
        fake_target.walk(intent_id)
        assert not isinstance(decide(intent_id, Action.ABORT), Problem)
        fake_target.walk(intent_id)
        assert book.order == [*fake_target.FORWARD, "/pay/undo", "/reserve/undo"]
        assert isinstance(replayed(intent_id), ReplayEqual)
    assert found_by_verify() == []


def test_a_rewritten_output_or_record_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    with desk_at(FILLED, monkeypatch) as (office, _):
        intent_id = office.accept()
        attempt(intent_id)
        commitment = record(intent_id)["outputs"]["result"]["commitment"]
        kept = Payload.objects.get(commitment=commitment)
        Payload.objects.filter(pk=kept.pk).update(content=bytes(kept.content or b"")[::-1])
        found = replayed(intent_id)
        assert isinstance(found, ReplayDifference)
        assert (found.change, found.path) == (Change.TRANSCRIPT, "/payload")
        assert found.recorded == commitment
        Payload.objects.filter(pk=kept.pk).update(content=kept.content)


def test_a_pack_of_the_flow_has_the_outputs_and_its_record_comes_out_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with desk_at(FILLED, monkeypatch) as (office, _):
        intent_id = office.accept()
        attempt(intent_id)
        pack = exported_packs.make(trading_desk.intent(intent_id).flow_id)
        code, checked = exported_packs.verified(pack, tmp_path)
        assert code == 0, checked
        assert list(pack.records().values())[-1]["outputs"]["outcome"] == "filled"
