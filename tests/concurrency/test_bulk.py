"""Two people who abort the same escalations at once: each has one decision, and nobody loses a row."""

from collections import Counter
from functools import partial

from django.contrib.auth.models import User

from escalations.contracts import Action
from escalations.models import Decision, Escalation
from escalations.services import bulk_deciding
from escalations.services.bulk_deciding import BulkItem
from runtime.contracts.problem import Problem
from runtime.registry.models import Agent
from tests.support import factories, racing


def abort(account: User, items: list[BulkItem]) -> Counter[str]:
    """What became of the items, as one person's form is decided; busy ones are sent again, as people do."""
    found: Counter[str] = Counter()
    while items:
        answers = bulk_deciding.decide(
            tenant=factories.TENANT,
            action=Action.ABORT,
            justification="",
            items=items,
            read_person=partial(factories.person, account),
            user=account,
        )
        assert not isinstance(answers, Problem), answers
        busy = set()
        for answer in answers:
            if isinstance(answer.outcome, Problem) and answer.outcome.code == "BUSY":
                busy.add(answer.escalation_id)
            else:
                is_refused = isinstance(answer.outcome, Problem)
                found[answer.outcome.code if is_refused else "DONE"] += 1  # type: ignore[union-attr]
        items = [item for item in items if item.escalation_id in busy]
    return found


def test_two_people_abort_the_same_set_and_each_item_has_one_decision(real_db: str) -> None:
    desk = factories.desk()
    for _ in range(5):
        Agent.objects.update(escalation_millitokens=3000)
        desk.escalate()
    rows = list(Escalation.objects.order_by("pk"))
    items = [
        BulkItem(
            escalation_id=row.pk, evidence_hash=row.evidence_hash, version=row.version, impact=row.impact
        )
        for row in rows
    ]
    people = [factories.user("olivia"), factories.user("mara")]
    works = [partial(abort, people[0], items), partial(abort, people[1], items[::-1])]
    counted = racing.all_at_once(works)
    total: Counter[str] = Counter()
    for one in counted:
        assert isinstance(one, Counter), one
        total += one
    assert total == {"DONE": 5, "ALREADY_DECIDED": 5}
    assert Decision.objects.count() == 5
    assert set(Escalation.objects.values_list("state", flat=True)) == {"RESOLVED"}
