"""The family of a flow on its timeline, and a frozen context as its agent saw it."""

import pytest

from audit import canonical
from audit.access.roles import Role
from runtime.contexts.models import Snapshot
from runtime.contracts.problem import Problem
from runtime.flows.services import flows
from runtime.state.services import memory
from tests.support import factories, gate_cases
from tests.support.own_words import stands
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db


def test_the_timeline_of_a_parent_shows_its_children_with_their_states() -> None:
    desk = factories.desk()
    parent = desk.open()
    opened = flows.open_flow(agent=desk.agent, trigger="x", parent_dfid=parent.dfid)
    assert not isinstance(opened, Problem)
    client = sign_in(Role.AUDITOR)
    page = text_of(client, f"/flows/{parent.dfid}/")
    assert "Child flow opened" in page
    assert f'href="/flows/{opened.dfid}/"' in page
    assert "1 of 1 child open" in page
    assert str(parent.dfid) in text_of(client, f"/flows/{opened.dfid}/")
    flows.close(agent=desk.agent, dfid=parent.dfid, reason="over")
    page = text_of(client, f"/flows/{parent.dfid}/")
    assert "0 of 1 child open" in page
    assert "PARENT_ENDED" in page


def test_a_flow_without_family_shows_none() -> None:
    flow = factories.desk().open()
    assert 'aria-label="Family"' not in text_of(sign_in(Role.AUDITOR), f"/flows/{flow.dfid}/")


def test_a_context_is_shown_byte_for_byte() -> None:
    flow = factories.desk().open()
    client, path = sign_in(Role.AUDITOR), f"/flows/{flow.dfid}/contexts/{flow.context_ref}/"
    assert path in text_of(client, f"/flows/{flow.dfid}/")
    page = text_of(client, path)
    for words in ("price.AAPL", "18950", "SHA-256 of the stored bytes", "ADJUST_POSITION"):
        assert words in page
    raw = client.get(f"{path}?raw=1")
    assert raw["Content-Type"] == "application/json"
    assert canonical.digest(raw.content) == flow.context_ref
    assert raw.content == bytes(Snapshot.objects.get().body)


def test_a_context_shows_what_had_happened_and_what_was_remembered() -> None:
    scopes = [{"scope": "desk", "access": "READ_WRITE"}]
    desk = factories.desk(manifest=gate_cases.manifest(memory_scopes=scopes))
    memory.write(agent=desk.agent, scope="desk", key="k", value="<i>slowly</i>", source="agent", ttl_s=None)
    flow = desk.open()
    desk.propose(flow, context_ref="unknown")
    again = desk.look(flow.dfid)
    page = text_of(sign_in(Role.AUDITOR), f"/flows/{flow.dfid}/contexts/{again.context_ref}/")
    for words in ("VALIDATION_FEEDBACK", "desk/k", "&lt;i&gt;slowly&lt;/i&gt;"):
        assert words in page


def test_bytes_that_were_changed_are_not_shown_as_the_context() -> None:
    flow = factories.desk().open()
    row = Snapshot.objects.get()
    row.body = bytes(row.body).replace(b"18950", b"18951")
    row.save()
    client, path = sign_in(Role.AUDITOR), f"/flows/{flow.dfid}/contexts/{flow.context_ref}/"
    answer = client.get(path)
    assert answer.status_code == 409
    page = answer.content.decode()
    assert "This row does not match the ledger." in page
    assert not stands("18951", page)
    assert b"18951" in client.get(f"{path}?raw=1").content


def test_a_context_of_another_flow_or_name_is_not_found() -> None:
    desk = factories.desk()
    flow, other = desk.open(), desk.open({"type": "other"})
    client = sign_in(Role.AUDITOR)
    Snapshot.objects.filter(flow=other.dfid).delete()
    for path in (f"/flows/{other.dfid}/contexts/{flow.context_ref}/", f"/flows/{flow.dfid}/contexts/x/"):
        assert client.get(path).status_code == 404
