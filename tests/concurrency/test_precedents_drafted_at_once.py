"""Two people draft the same precedent at once: one draft, one entry."""

import pytest

from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from escalations import precedents
from escalations.contracts import Action
from escalations.services import strategy_rules
from runtime.contracts.problem import Problem
from runtime.registry.models import PolicyKind
from tests.support import factories, racing

AT_ONCE = 4


def test_one_precedent_is_drafted_once(real_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precedents, "LEAST_CASES", 2)
    factories.configure_target()
    desk = factories.desk()
    for name in ("olivia", "oscar"):
        assert not isinstance(factories.decide(desk.escalate(), factories.user(name), Action.ABORT), Problem)
    (offer,) = strategy_rules.list_offers(tenant="default")

    def draft(number: int) -> str:
        made = strategy_rules.propose(
            tenant="default", digest=offer.precedent.digest, actor=f"user:{number + 7}"
        )
        assert not isinstance(made, Problem), made
        return made.rule_id

    assert len(set(racing.race(AT_ONCE, draft))) == 1
    assert LedgerEntry.objects.filter(kind="strategy_rule:proposed").count() == 1
    assert PolicyKind.objects.filter(active=False).count() == 1
    assert isinstance(verify_database(), Whole)
