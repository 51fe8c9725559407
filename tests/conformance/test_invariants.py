"""The invariants: yes on a whole history, and no when one thing that they look at is damaged."""

from collections.abc import Callable
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.urls import path
from pytest_django.fixtures import Settings

from audit.access.permissions import public, signed_in
from audit.events import Kind
from audit.live import hints
from audit.models import LedgerEntry
from dir_console.conformance import access, imports, invariants
from dir_console.conformance.imports import Import
from dir_console.conformance.items import Answer
from escalations.models import Decision, Escalation
from runtime.contracts import states
from runtime.contracts.proposal import ProposalDocument
from runtime.flows.models import Attempt, Intent, Outcome, Proposal, Verdict
from runtime.kernel.gate import pipeline
from runtime.workers import celery_tasks
from tests.support import ledger_tampering
from tests.support.conformance_items import answer_for_the_child, ask
from tests.support.finished_history import History

Damage = Callable[[History], object]
NUMBERS = range(1, 9)


def another_success(history: History) -> None:
    """A second call under the key of one that has succeeded."""
    row = Attempt.objects.filter(intent__flow=history.accepted, state="SUCCEEDED")[0]
    row.pk, row.number = None, 99
    row.save(force_insert=True)


def without_attempts(history: History) -> None:
    ledger_tampering.execute("DELETE FROM audit_ledgerentry WHERE kind = %s", [Kind.ATTEMPT_STARTED.value])


def decided_and_expired(history: History) -> None:
    Escalation.objects.filter(flow=history.overridden).update(state="EXPIRED")


def ran_after_it_expired(history: History) -> None:
    """A flow whose escalation expired, and whose call began later."""
    Escalation.objects.filter(flow=history.aborted).update(state="EXPIRED")
    Decision.objects.all().delete()
    row = Attempt.objects.filter(intent__flow=history.accepted)[0]
    Intent.objects.filter(pk=row.intent_id).update(flow=history.aborted)
    Attempt.objects.filter(pk=row.pk).update(started_at="2099-01-01T00:00:00Z")


def explained_to_the_gate(history: History) -> None:
    """An explanation that stands in the gate's input."""
    row = Verdict.objects.filter(proposal__flow=history.accepted)[0]
    Proposal.objects.filter(pk=row.pk).update(explain="Trust me.")
    held = bytes(row.input).replace(b'"params":{', b'"params":{"x":"Trust me.",')
    Verdict.objects.filter(pk=row.pk).update(input=held)


def rewritten_inputs(history: History) -> None:
    Verdict.objects.filter(proposal__flow=history.accepted).update(input=b"{}")


DAMAGED: dict[str, tuple[int, Damage, str]] = {
    "an input": (1, rewritten_inputs, "does not have its digest"),
    "a verdict": (
        1,
        lambda history: Verdict.objects.filter(proposal__flow=history.accepted).update(body=b"{}"),
        "comes out otherwise",
    ),
    "a verdict that accepts": (
        2,
        lambda _: Verdict.objects.update(decision="REJECT"),
        "no accepting verdict",
    ),
    "a call that succeeded twice": (3, another_success, "succeeded 2 times"),
    "calls that were never begun": (3, without_attempts, "an answer to a call that was never begun"),
    "a row without its entry": (4, another_success, "There are 9 attempts and 8 entries about them."),
    "an entry without its row": (4, lambda _: Outcome.objects.all().delete(), "There are 0 outcomes and 2"),
    "a decision on what expired": (5, decided_and_expired, "1 are decided"),
    "a call after what expired": (5, ran_after_it_expired, "1 calls followed"),
    "a signature": (6, lambda _: Decision.objects.update(signature=bytes(64)), "is not signed by"),
    "an explanation in the input": (7, explained_to_the_gate, "is in the gate's input"),
}


@pytest.mark.parametrize("number", NUMBERS)
def test_a_whole_history_is_a_yes(damaged: History, number: int) -> None:
    found = ask(f"invariant-{number}")
    assert (found.answer, found.why) == (Answer.YES, "")


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_history_is_a_no(damaged: History, name: str) -> None:
    number, damage, why = DAMAGED[name]
    damage(damaged)
    found = ask(f"invariant-{number}")
    assert found.answer is Answer.NO
    assert why in found.why


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("number", "answer"), [(1, Answer.NOT_APPLICABLE), (5, Answer.NOT_APPLICABLE), (4, Answer.YES)]
)
def test_an_empty_console(number: int, answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_for_the_child(monkeypatch, judge=None)
    assert ask(f"invariant-{number}").answer is answer


def test_a_row_of_the_sample_that_differs_is_a_no(damaged: History) -> None:
    Verdict.objects.filter(proposal__flow=damaged.accepted).update(decision="REJECT")
    found = ask("invariant-4")
    assert "/verdict/decision is not what was recorded" in found.why


# The source


@pytest.fixture
def another_import(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Let the source of the product have one import more."""

    def add(by: str, module: str) -> None:
        found = [*imports.list_imports(), Import(by, 7, module)]
        monkeypatch.setattr(imports, "list_imports", lambda: found)

    return add


SOURCE: dict[str, tuple[int, str, str]] = {
    "a clock in the gate": (1, "runtime.kernel.gate.pipeline", "time"),
    "a database in the gate": (1, "runtime.contracts.facts", "django.db.connection"),
    "an adapter elsewhere": (2, "runtime.flows.services.flows", "runtime.execution.adapters.executors.http"),
    "the environment elsewhere": (2, "escalations.services.deciding", "os.environ"),
    "a decision by the API": (6, "escalations.api", "escalations.services.deciding"),
    "a decision by the runtime": (6, "runtime.flows.api.flow_calls", "escalations.services.bulk_deciding"),
}


@pytest.mark.parametrize("name", SOURCE)
def test_an_import_that_must_not_be_is_a_no(
    damaged: History, another_import: Callable[[str, str], None], name: str
) -> None:
    number, by, module = SOURCE[name]
    another_import(by, module)
    found = ask(f"invariant-{number}")
    assert found.answer is Answer.NO
    assert by in found.why


# What is tried in memory


def test_another_process_that_judges_otherwise_is_a_no(
    damaged: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_for_the_child(monkeypatch, judge={"is_equal": False, "events": []})
    assert "Another process comes to another verdict." in ask("invariant-1").why


def test_a_gate_that_accepts_what_is_missing_is_a_no(
    damaged: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = pipeline.judge

    def lenient(*given: Any) -> Any:
        return honest(*given).model_copy(update={"decision": states.Decision.ACCEPT})

    monkeypatch.setattr(pipeline, "judge", lenient)
    found = ask("invariant-5")
    assert found.answer is Answer.NO
    for case in ("no kind", "no manifest", "neither", "no session", "after its window"):
        assert f"With {case} the gate answers ACCEPT." in found.why


@public
def open_to_all(request: HttpRequest) -> HttpResponse:
    """A page for everybody."""
    return HttpResponse()


def unguarded(request: HttpRequest) -> HttpResponse:
    """A page that does not say whom it admits."""
    return HttpResponse()


def with_a_hole(request: HttpRequest) -> HttpResponse:
    """A page that says whom it admits, and admits everybody."""
    return HttpResponse()


with_a_hole.required_roles = frozenset({"operator"})  # type: ignore[attr-defined]


def failing(request: HttpRequest) -> HttpResponse:
    """The same, of a page that fails on a person who is none."""
    raise AttributeError("has_usable_password")


failing.required_roles = frozenset({"operator"})  # type: ignore[attr-defined]


@signed_in
def guarded(request: HttpRequest, number: int) -> HttpResponse:
    """A page for people."""
    raise AssertionError("it was reached")


def test_a_page_that_admits_an_agent_is_a_no(damaged: History, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [
        path("open/", open_to_all),
        path("free/", unguarded),
        path("hole/", with_a_hole),
        path("failing/", failing),
        path("page/<int:number>/", guarded),
    ]
    monkeypatch.setattr(access, "_pages", lambda _: [(f"/{page.pattern}", page) for page in pages])
    tried = access.try_as_agent()
    assert (tried.asked, tried.public) == (3, 1)
    assert tried.wrong == [
        "The page /free/ does not say whom it admits.",
        "The page /hole/ answers 200 to an agent's key.",
        "The page /hole/ answers 200 to somebody without a role.",
        "The page /failing/ answers AttributeError to an agent's key.",
        "The page /failing/ answers AttributeError to somebody without a role.",
    ]
    assert ask("invariant-6").answer is Answer.NO


def test_a_link_that_decides_is_a_no(damaged: History, monkeypatch: pytest.MonkeyPatch) -> None:
    page = path("decide/", with_a_hole, name="escalation-decision")
    monkeypatch.setattr(access, "_pages", lambda _: [("/decide/", page)])
    tried = access.try_links()
    assert "A GET of escalation-decision answers 200." in tried.wrong
    assert "There is no address named activate-kind." in tried.wrong


def test_asking_every_page_leaves_no_trace(damaged: History) -> None:
    before = LedgerEntry.objects.count()
    tried = access.try_as_agent()
    assert tried.wrong == []
    assert tried.asked > 100
    assert LedgerEntry.objects.count() == before


def test_markup_that_is_shown_as_markup_is_a_no(damaged: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invariants, "render_to_string", lambda _, context: context["case"]["explain"])
    assert "shows markup of an explanation as markup" in ask("invariant-7").why


def test_a_place_for_the_explanation_is_a_no(damaged: History, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {**ProposalDocument.model_fields, "explain": None}
    monkeypatch.setattr(ProposalDocument, "__pydantic_fields__", fields)
    assert "has a place for the explanation" in ask("invariant-7").why


class Task:
    """A message that carries more than an id."""

    name = "runtime.extra"

    def apply_async(self) -> None: ...
    def run(self, proposal: str) -> None: ...


def test_a_message_with_more_than_ids_is_a_no(damaged: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(celery_tasks, "extra", Task(), raising=False)
    assert "The message runtime.extra carries proposal." in ask("invariant-8").why


def test_a_hint_with_more_than_a_number_is_a_no(damaged: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "hint", lambda tenant, stream, seq, body: None)
    assert "A live hint carries body." in ask("invariant-8").why


def test_a_broker_that_takes_more_than_json_is_a_no(damaged: History, settings: Settings) -> None:
    settings.CELERY_ACCEPT_CONTENT = ["json", "pickle"]
    assert "may hold more than JSON" in ask("invariant-8").why
