"""The page on memory: what waits in quarantine, and who lets it in."""

import pytest

from audit.access.roles import Role
from runtime.state.models import MemoryItem
from runtime.state.services import memory
from tests.support import factories, gate_cases
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db


def held() -> MemoryItem:
    scopes = [{"scope": "desk", "access": "READ_WRITE"}]
    desk = factories.desk(manifest=gate_cases.manifest(memory_scopes=scopes))
    memory.write(agent=desk.agent, scope="desk", key="tip", value="<b>buy</b>", source="web:x", ttl_s=None)
    return MemoryItem.objects.get()


def test_shows_what_waits_escaped_and_as_a_claim() -> None:
    held()
    page = text_of(sign_in(Role.AUDITOR), "/memory/")
    assert "desk/tip" in page
    assert "&lt;b&gt;buy&lt;/b&gt;" in page
    assert "Unverified claim" in page
    assert "Release" not in page


def test_an_admin_releases_and_discards() -> None:
    item = held()
    client = sign_in(Role.ADMIN)
    assert "Release" in text_of(client, "/memory/")
    said = {"digest": item.digest, "reason": "The desk confirmed it."}
    assert client.post(f"/memory/{item.pk}/release/", {"digest": item.digest}).status_code == 400
    assert client.post(f"/memory/{item.pk}/release/", said | {"digest": "0" * 64}).status_code == 409
    assert client.post(f"/memory/{item.pk}/release/", said).status_code == 302
    item.refresh_from_db()
    assert (item.quarantined, item.current) == (False, True)
    assert "Nothing is in quarantine" in text_of(client, "/memory/")
    assert client.post(f"/memory/{item.pk}/discard/", said).status_code == 404


def test_discarding_keeps_an_item_out() -> None:
    item = held()
    said = {"digest": item.digest, "reason": "Nobody knows this page."}
    assert sign_in(Role.ADMIN).post(f"/memory/{item.pk}/discard/", said).status_code == 302
    item.refresh_from_db()
    assert (item.quarantined, item.current) == (False, False)
    assert item.decision_reason == "Nobody knows this page."


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.SENIOR, Role.AUDITOR])
def test_nobody_else_decides(role: Role) -> None:
    item = held()
    client = sign_in(role)
    for action in ("release", "discard"):
        assert client.post(f"/memory/{item.pk}/{action}/").status_code == 403
    item.refresh_from_db()
    assert item.quarantined
