"""Keys: issued once, kept as hashes, revoked for good, and recorded."""

import hashlib

import pytest
from django.db import IntegrityError, transaction

from audit.models import LedgerEntry
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import AgentStatus
from runtime.core import clock, refusals
from runtime.registry.models import Agent, Key
from runtime.registry.services import credentials
from tests.support import api_client


@pytest.fixture(autouse=True)
def _desk(db: None) -> None:
    api_client.load_pack()


def kinds(stream: str) -> list[str]:
    rows = LedgerEntry.objects.filter(stream=stream, kind__startswith="key:").order_by("seq")
    return [row.kind for row in rows]


def test_a_key_is_kept_as_a_hash_only() -> None:
    issued = credentials.issue_agent_key(tenant="default", agent_id="trader", actor="system")
    assert isinstance(issued, credentials.IssuedKey)
    key_id, _, secret = issued.text.partition(".")
    row = Key.objects.get(key_id=issued.key_id)
    assert key_id == issued.key_id
    assert row.secret_hash == hashlib.sha256(secret.encode()).hexdigest()
    assert secret not in str(vars(row))
    assert secret not in repr(issued)
    assert secret not in repr(credentials.read(issued.text))


def test_keys_differ() -> None:
    assert len({api_client.agent_key() for _ in range(20)}) == 20


def test_issue_and_revocation_are_recorded_once() -> None:
    key_id = api_client.agent_key().partition(".")[0]
    for _ in range(2):
        assert isinstance(credentials.revoke_key(key_id=key_id, actor="user:1"), Key)
    assert kinds("agent:trader") == ["key:issued", "key:revoked"]
    last = LedgerEntry.objects.get(kind="key:revoked")
    assert (last.actor, last.payload) == ("user:1", {"key_id": key_id})


def test_a_feeds_key_is_recorded_in_its_stream() -> None:
    key_id = api_client.feed_key().partition(".")[0]
    credentials.revoke_key(key_id=key_id, actor="system")
    assert kinds("feed:prices") == ["key:issued", "key:revoked"]


def test_an_auditors_key_is_recorded_in_its_stream() -> None:
    key_id = api_client.auditor_key("ey-2026").partition(".")[0]
    credentials.revoke_key(key_id=key_id, actor="system")
    assert kinds("auditor:ey-2026") == ["key:issued", "key:revoked"]
    issued = LedgerEntry.objects.get(kind="key:issued", stream="auditor:ey-2026").payload
    assert issued["subject"] == "auditor:ey-2026"


@pytest.mark.parametrize(
    ("fields", "holder"),
    [({"feed": "prices"}, "feed:prices"), ({"auditor": "regulator"}, "auditor:regulator")],
)
def test_a_key_has_one_holder(fields: dict[str, str], holder: str) -> None:
    api_client.agent_key()
    assert Key.objects.get(agent__isnull=False).holder == "agent:trader"
    for wrong in (
        {**fields, "agent": Agent.objects.get(agent_id="trader")},
        {"feed": "x", "auditor": "x"},
        {},
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            Key.objects.create(key_id="k", secret_hash="0" * 64, created_at=clock.now(), **wrong)
    made = Key.objects.create(key_id="k", secret_hash="0" * 64, created_at=clock.now(), **fields)
    assert made.holder == holder


def test_each_sort_of_key_is_only_that() -> None:
    agent, feed, auditor = api_client.agent_key(), api_client.feed_key(), api_client.auditor_key()
    assert credentials.agent_key(agent) is not None
    assert credentials.feed_key(feed) is not None
    assert credentials.agent_key(feed) is None
    assert credentials.feed_key(agent) is None
    assert credentials.session(agent) is None
    assert credentials.auditor_key(auditor) is not None
    for text in (agent, feed):
        assert credentials.auditor_key(text) is None
        assert credentials.auditor_key("auk" + text[3:]) is None
    for read in (credentials.agent_key, credentials.feed_key, credentials.session):
        assert read(auditor) is None
    relabelled = "fdk" + agent.removeprefix("agk")
    assert credentials.feed_key(relabelled) is None


def test_any_key_is_a_key_of_whoever_holds_it_and_no_session() -> None:
    for text in (api_client.agent_key(), api_client.feed_key(), api_client.auditor_key()):
        found = credentials.any_key(text)
        assert found is not None
        assert found.key_id == text.partition(".")[0]
    assert credentials.any_key(api_client.session().token) is None
    assert credentials.any_key("") is None


@pytest.mark.parametrize("text", ["", "agk_", "agk_0.x", "x" * 100_000, "agk_0123456789ABCDEF." + "A" * 43])
def test_text_of_another_form_is_no_credential(text: str) -> None:
    assert credentials.read(text) is None
    assert credentials.agent_key(text) is None


def test_a_revoked_key_is_none() -> None:
    text = api_client.agent_key()
    credentials.revoke_key(key_id=text.partition(".")[0], actor="system")
    assert credentials.agent_key(text) is None


def test_nobody_gets_a_key_for_an_unknown_or_retired_agent() -> None:
    unknown = credentials.issue_agent_key(tenant="default", agent_id="nobody", actor="system")
    foreign = credentials.issue_agent_key(tenant="other", agent_id="trader", actor="system")
    Agent.objects.filter(agent_id="trader").update(status=AgentStatus.RETIRED)
    retired = credentials.issue_agent_key(tenant="default", agent_id="trader", actor="system")
    codes = [problem.code for problem in (unknown, foreign, retired) if isinstance(problem, Problem)]
    assert codes == ["NOT_FOUND", "NOT_FOUND", "AGENT_RETIRED"]


@pytest.mark.parametrize(
    ("feed", "prefix"),
    [
        ("", "price."),
        ("a b", "price."),
        ("x" * 65, "price."),
        ("a:b", "price."),
        ("prices", ""),
        ("prices", "price"),
        ("prices", "Price."),
        ("prices", "price.*"),
        ("prices", "price.A.B"),
        ("prices", "price." + "A" * 200),
    ],
)
def test_a_feed_of_another_form_gets_no_key(feed: str, prefix: str) -> None:
    refused = credentials.issue_feed_key(tenant="default", feed=feed, prefix=prefix, actor="system")
    assert isinstance(refused, Problem)
    assert not Key.objects.exclude(feed="").exists()


@pytest.mark.parametrize("auditor", ["", "a b", "x" * 65, "a:b", "-a", "ä"])
def test_an_auditor_of_another_name_gets_no_key(auditor: str) -> None:
    refused = credentials.issue_auditor_key(tenant="default", auditor=auditor, actor="system")
    assert isinstance(refused, Problem)
    assert not Key.objects.exclude(auditor="").exists()


def test_revoking_what_is_not_there_is_a_problem() -> None:
    assert isinstance(credentials.revoke_key(key_id="agk_0", actor="system"), Problem)


def test_a_refusal_is_recorded_in_its_stream() -> None:
    assert refusals.record_refusal(
        tenant="default",
        stream="agent:new",
        code=ProblemCode.NOT_FOUND,
        path="/" + "p" * 300,
        detail="No such thing.",
    )
    entry = LedgerEntry.objects.get(stream="agent:new")
    digest = hashlib.sha256(b"No such thing.").hexdigest()
    assert entry.payload == {"code": "NOT_FOUND", "path": "/" + "p" * 199, "detail_digest": digest}
