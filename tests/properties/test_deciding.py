"""Decision forms with anything in them: a person's browser is no more trusted than an agent."""

from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.http import QueryDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit import canonical
from escalations import forms
from escalations.contracts import Action
from escalations.models import Decision, Escalation
from escalations.services import deciding, dry_running
from runtime.contracts.problem import Problem
from runtime.flows.models import Intent
from runtime.proposals.queries import verdict_replay
from runtime.registry.models import Agent
from tests.support import factories, gate_cases, hostile_values

pytestmark = pytest.mark.django_db

stored = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
fields = st.fixed_dictionaries(
    {
        "action": st.sampled_from([*Action, Action.MODIFY, Action.MODIFY]),
        "justification": st.one_of(st.just(factories.JUSTIFICATION), hostile_values.texts),
        "conditions": st.one_of(st.just(""), st.just("params.quantity >= 1"), hostile_values.texts),
    },
    optional={
        "params": hostile_values.params.map(lambda found: canonical.encode(found).decode()),
        "param:quantity": hostile_values.texts,
        "param:symbol": hostile_values.texts,
        "receipt": hostile_values.texts,
        "evidence_hash": hostile_values.texts,
        "impact": hostile_values.texts,
    },
)


@pytest.fixture
def desk() -> factories.Desk:
    return factories.desk(manifest=gate_cases.manifest(escalations_per_hour=3600))


@pytest.fixture
def olivia() -> User:
    return factories.user("olivia")


@stored
@given(typed=fields)
def test_a_form_is_decided_or_refused_and_never_runs_more_than_was_shown(
    desk: factories.Desk, olivia: User, typed: dict[str, Any]
) -> None:
    Agent.objects.update(bucket_at=None)
    escalation = desk.escalate()
    row = Escalation.objects.get(pk=escalation.pk)
    plain = {"version": row.version, "evidence_hash": row.evidence_hash, "impact": row.impact}
    shown = factories.evidence_of(row)
    form = forms.DecisionForm(
        QueryDict(urlencode({**plain, **typed})),
        params_schema=shown.kind.params_schema,
        proposed=shown.proposal.params,
    )
    request = form.read()
    if isinstance(request, Problem):
        assert request.status == 400
        return
    who = factories.person(olivia)
    named: dict[str, Any] = {"tenant": "default", "escalation_id": row.pk, "person": who, "request": request}
    assert dry_running.dry_run(**named) is not None
    answer = deciding.decide(user=olivia, **named)
    intents = Intent.objects.filter(flow_id=row.flow_id)
    # A question decides nothing: the escalation stays open.
    decided = isinstance(answer, deciding.DecisionResult) and request.action is not Action.REQUEST_INFO
    assert Decision.objects.filter(escalation=row).exists() is decided
    assert intents.exists() is (decided and request.action is not Action.ABORT)
    for intent in intents:
        ran = canonical.decode(bytes(intent.proposal.body))["params"]
        assert ran["notional_cents"] <= 150_000
        assert set(ran) == set(gate_cases.PARAMS)
    assert isinstance(verdict_replay.replay(dfid=row.flow_id), verdict_replay.Equal)
