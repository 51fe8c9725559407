"""The groups of the queue where columns were rewritten: all rows are shown all the same."""

from collections.abc import Sequence
from typing import Any

import pytest

from escalations import presenters, queries, queue_groups
from escalations.evidence_contracts import OperationalEvidence
from escalations.models import Escalation
from escalations.queue_groups import GroupView
from runtime.contracts.reasons import Reason
from runtime.core import clock
from tests.escalations.test_replacing import called
from tests.support import factories, fallen_silent

pytestmark = pytest.mark.django_db


def groups(rows: Sequence[Escalation], evidence: dict[Any, Any]) -> list[GroupView]:
    lines = presenters.rows(escalations=rows, evidence=evidence, now=clock.now(), user_pk=0)
    return queue_groups.views(escalations=rows, rows=lines, evidence=evidence)


def test_an_incident_without_attempts_is_a_heading_without_words(desk: factories.Desk) -> None:
    factories.configure_target()
    rows = [called(desk, "FAILED", Reason.REPEATED_FAILURE) for _ in range(2)]
    for row in rows:
        row.incident = "forged"
    evidence: dict[Any, Any] = {}
    for pk, one in queries.get_evidence(tenant=factories.TENANT, escalations=rows).items():
        assert isinstance(one, OperationalEvidence)
        untried = one.operational.model_copy(update={"attempts": ()})
        evidence[pk] = one.model_copy(update={"operational": untried})
    (group,) = groups(rows, evidence)
    assert (group.is_incident, group.words, group.since, len(group.rows)) == (True, "", None, 2)


def test_silences_that_were_made_alike_are_lines_without_differences() -> None:
    rows = [fallen_silent.called(fallen_silent.desk(f"silent-{number}")) for number in range(3)]
    for row in rows:
        row.family, row.agent_id = "DECISION", rows[0].agent_id
    (group,) = groups(rows, dict(queries.get_evidence(tenant=factories.TENANT, escalations=rows)))
    assert [line.differs for line in group.rows] == [()] * 3
