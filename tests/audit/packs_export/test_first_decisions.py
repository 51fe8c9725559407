"""What the first of two people decided is in no pack before the second has decided, too."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.contrib.auth.models import User

from audit import canonical
from audit.models import LedgerEntry
from escalations import pack_objects
from escalations.contracts import Action
from escalations.models import Decision, Escalation
from escalations.services import two_people
from runtime.contracts.problem import Problem
from runtime.maintenance.services import sealing
from tests.support import exported_packs, factories, gate_cases
from tests.support.exported_packs import Pack

pytestmark = pytest.mark.django_db


@pytest.fixture
def critical(db: None) -> Escalation:
    return factories.desk(kind=gate_cases.kind(impact="'CRITICAL'")).escalate()


@pytest.fixture
def olivia(db: None) -> User:
    return factories.user("olivia")


@pytest.fixture
def mara(db: None) -> User:
    return factories.user("mara", "senior")


CHOSEN = {**factories.OVER_LIMIT, "notional_cents": 123_457}
WORDS = "A reason that only the first person knows."


def decide_first(critical: Escalation, person: User) -> str:
    """The first of two decisions; the digest of its statement."""
    answer = factories.decide(critical, person, Action.MODIFY, params=CHOSEN, justification=WORDS)
    assert not isinstance(answer, Problem), answer
    return canonical.digest(bytes(Decision.objects.latest("pk").statement))


def leaks(pack: Pack) -> list[str]:
    """The members that tell what the first person chose, and why."""
    return [name for words in (WORDS, "123457", '"MODIFY"', "MODIFY") for name in _telling(pack, words)]


def _telling(pack: Pack, words: str) -> list[str]:
    return [name for name in pack.holds(words) if name != "verify.py"]


def test_what_the_first_of_two_chose_is_hidden_until_the_second_has_decided(
    critical: Escalation, olivia: User, mara: User, tmp_path: Path
) -> None:
    digest = decide_first(critical, olivia)
    pack = exported_packs.make(critical.flow_id)
    assert pack.entries("escalation:first_decided")
    assert pack.absent() == {digest: pack_objects.HIDDEN}
    assert leaks(pack) == []
    assert pack_objects.HIDDEN in pack.report()
    assert pack.lines("signatures.jsonl") == []
    assert exported_packs.verified(pack, tmp_path)[0] == 0

    answer = factories.decide(
        critical, mara, Action.MODIFY, params=CHOSEN, justification="The reason of the second."
    )
    assert not isinstance(answer, Problem), answer
    pack = exported_packs.make(critical.flow_id)
    assert pack.absent() == {}
    assert WORDS in pack.objects()[digest].decode()
    assert WORDS in pack.report()
    assert exported_packs.verified(pack, tmp_path)[0] == 0


def withdraw(critical: Escalation, olivia: User, mara: User) -> None:
    who = factories.person(olivia)
    two_people.withdraw(tenant=factories.TENANT, escalation_id=critical.pk, person=who)


def differ(critical: Escalation, olivia: User, mara: User) -> None:
    factories.decide(critical, mara, Action.OVERRIDE, justification="The reason of the second.")


@pytest.mark.parametrize("end", [withdraw, differ])
def test_a_first_decision_that_gave_way_stays_hidden_while_the_escalation_is_open(
    critical: Escalation, olivia: User, mara: User, end: Callable[[Escalation, User, User], None]
) -> None:
    digest = decide_first(critical, olivia)
    end(critical, olivia, mara)
    assert Escalation.objects.get().state == "OPEN"
    assert Decision.objects.order_by("sequence")[0].state == "SUPERSEDED"
    pack = exported_packs.make(critical.flow_id)
    assert pack.absent()[digest] == pack_objects.HIDDEN
    assert set(pack.absent().values()) == {pack_objects.HIDDEN}
    assert leaks(pack) == []


def test_rewritten_rows_do_not_show_what_is_hidden(critical: Escalation, olivia: User) -> None:
    digest = decide_first(critical, olivia)
    sealing.seal_now()
    Decision.objects.update(state="CONFIRMED")
    Escalation.objects.update(state="RESOLVED", resolution="MODIFY", resolved_at=critical.opened_at)
    pack = exported_packs.again(critical.flow_id)
    assert pack.absent() == {digest: pack_objects.HIDDEN}
    assert leaks(pack) == []


def test_an_escalation_that_ended_otherwise_shows_its_first_decision(
    critical: Escalation, olivia: User, mara: User
) -> None:
    digest = decide_first(critical, olivia)
    factories.decide(critical, mara, Action.ABORT, justification="Not at all.")
    assert LedgerEntry.objects.filter(kind="escalation:decided").exists()
    assert WORDS in exported_packs.make(critical.flow_id).objects()[digest].decode()
