"""Who may call what, and what is recorded of those who may not."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.http import HttpRequest
from django.test import Client

from audit.models import LedgerEntry
from runtime.contracts.states import AgentStatus
from runtime.core import clock
from runtime.core.refusals import RECORDED_PER_MINUTE
from runtime.registry.api import auth
from runtime.registry.models import Agent, Key, Session
from runtime.registry.services import agents, credentials
from tests.support import api_client

SetClock = Callable[[datetime], None]
DFID = "01890000-0000-7000-8000-000000000000"
SESSION_CALLS = [
    ("GET", "/schema/policy"),
    ("GET", "/schema/policy/ADJUST_POSITION/latest"),
    ("GET", "/schema/policy/ADJUST_POSITION/1.2.0"),
    ("POST", "/flows"),
    ("GET", f"/flows/{DFID}"),
    ("POST", f"/flows/{DFID}/context"),
    ("POST", f"/flows/{DFID}/proposals"),
    ("GET", f"/flows/{DFID}/feedback"),
    ("POST", f"/flows/{DFID}/cancel"),
    ("POST", f"/flows/{DFID}/close"),
]
AGENT_KEY_CALLS = [("POST", "/handshake")]
FEED_CALLS = [("PUT", "/state/facts/price.AAPL"), ("PATCH", "/state/facts/price.AAPL")]
STATE_READS = [
    ("GET", "/state/facts/price.AAPL"),
    ("GET", "/state/world"),
    ("GET", "/state/versions"),
    ("GET", "/state/ontology/1.0.0"),
]
GARBAGE = [
    "",
    "Bearer",
    "Bearer ",
    "Bearer x",
    "Basic dTpw",
    "Bearer agk_0123456789abcdef." + "A" * 43,
    "Bearer ses_0123456789abcdef." + "A" * 43,
    "Bearer fdk_0123456789abcdef." + "A" * 43,
    "Bearer agk_.",
    "Bearer \u00e9",
]


def refusals(stream: str) -> list[str]:
    rows = LedgerEntry.objects.filter(stream=stream, kind="request:refused").order_by("seq")
    return [row.payload["code"] for row in rows]


@pytest.mark.parametrize(("method", "path"), [*SESSION_CALLS, *AGENT_KEY_CALLS, *FEED_CALLS, *STATE_READS])
def test_refuses_nothing_and_garbage(desk: None, method: str, path: str) -> None:
    for header in GARBAGE:
        headers = {"Authorization": header} if header else {}
        answer = api_client.Caller().call(method, path, {}, headers=headers)
        answer.problem(401, "UNAUTHENTICATED")
        assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize(("method", "path"), SESSION_CALLS)
def test_refuses_keys_where_a_session_is_due(desk: None, method: str, path: str) -> None:
    for key in (api_client.agent_key(), api_client.feed_key(), api_client.auditor_key()):
        api_client.Caller(key).call(method, path, {}).problem(403, "UNAUTHORIZED")


@pytest.mark.parametrize(("method", "path"), FEED_CALLS)
def test_refuses_others_where_a_feed_is_due(trader: api_client.Caller, method: str, path: str) -> None:
    for key in (api_client.agent_key(), api_client.auditor_key()):
        api_client.Caller(key).call(method, path, {"value": 1}).problem(403, "UNAUTHORIZED")
    trader.call(method, path, {"value": 1}).problem(403, "UNAUTHORIZED")


@pytest.mark.parametrize(("method", "path"), STATE_READS)
def test_refuses_the_long_lived_key_of_an_agent_where_state_is_read(
    desk: None, method: str, path: str
) -> None:
    api_client.Caller(api_client.agent_key()).call(method, path).problem(403, "UNAUTHORIZED")


def test_refuses_everyone_but_agents_at_the_handshake(trader: api_client.Caller) -> None:
    trader.post("/handshake", api_client.hello()).problem(403, "UNAUTHORIZED")
    for key in (api_client.feed_key(), api_client.auditor_key()):
        api_client.Caller(key).post("/handshake", api_client.hello()).problem(403, "UNAUTHORIZED")


def test_records_the_refusals_of_known_callers_only(trader: api_client.Caller) -> None:
    api_client.Caller().get("/schema/policy").problem(401, "UNAUTHENTICATED")
    api_client.Caller(api_client.feed_key()).get("/schema/policy").problem(403, "UNAUTHORIZED")
    api_client.Caller(api_client.auditor_key()).get("/schema/policy").problem(403, "UNAUTHORIZED")
    trader.get(f"/flows/{DFID}").problem(404, "FLOW_NOT_FOUND")
    assert refusals("feed:prices") == ["UNAUTHORIZED"]
    assert refusals("auditor:regulator") == ["UNAUTHORIZED"]
    assert refusals("agent:trader") == ["FLOW_NOT_FOUND"]
    assert LedgerEntry.objects.filter(kind="request:refused").count() == 3


def test_records_no_more_than_its_share_of_a_minute(trader: api_client.Caller, set_clock: SetClock) -> None:
    set_clock(clock.now())
    for _ in range(RECORDED_PER_MINUTE + 5):
        trader.get(f"/flows/{DFID}").problem(404, "FLOW_NOT_FOUND")
    assert len(refusals("agent:trader")) == RECORDED_PER_MINUTE


def test_ignores_cookies_and_identity_headers(trader: api_client.Caller) -> None:
    dfid = trader.open_flow()
    forged = {
        "Cookie": f"sessionid={trader.token}",
        "X-Agent-Id": "trader",
        "X-Forwarded-User": "trader",
        "Remote-User": "trader",
    }
    api_client.Caller().get(f"/flows/{dfid}", forged).problem(401, "UNAUTHENTICATED")


def test_a_revoked_key_ends_its_sessions_at_once(desk: None) -> None:
    key = api_client.agent_key()
    token = api_client.Caller(key).post("/handshake", api_client.hello()).ok()["session_token"]
    caller = api_client.Caller(token)
    dfid = caller.open_flow()
    credentials.revoke_key(key_id=key.partition(".")[0], actor="system")
    caller.get(f"/flows/{dfid}").problem(401, "UNAUTHENTICATED")
    caller.propose(dfid, api_client.proposal()).problem(401, "UNAUTHENTICATED")
    api_client.Caller(key).post("/handshake", api_client.hello()).problem(401, "UNAUTHENTICATED")


def test_a_session_ends_with_its_time(trader: api_client.Caller, set_clock: SetClock) -> None:
    ends_at = Session.objects.latest("pk").expires_at
    set_clock(ends_at - timedelta(milliseconds=1))
    trader.get("/schema/policy").ok()
    set_clock(ends_at)
    trader.get("/schema/policy").problem(401, "UNAUTHENTICATED")


def test_a_retired_agent_loses_its_session_and_its_handshake(trader: api_client.Caller) -> None:
    key = api_client.agent_key()
    agents.set_status(
        tenant="default", agent_id="trader", status=AgentStatus.RETIRED, reason="done", actor="system"
    )
    trader.get("/schema/policy").problem(401, "UNAUTHENTICATED")
    api_client.Caller(key).post("/handshake", api_client.hello()).problem(403, "AGENT_RETIRED")


def test_a_session_of_another_secret_is_none(trader: api_client.Caller) -> None:
    public_id, _, secret = trader.token.partition(".")
    swapped = secret[:-1] + ("A" if secret[-1] != "A" else "B")
    api_client.Caller(f"{public_id}.{swapped}").get("/schema/policy").problem(401, "UNAUTHENTICATED")


def test_use_is_noted_once_a_minute(desk: None, set_clock: SetClock) -> None:
    key_text = api_client.feed_key()
    feed, key_id = api_client.Caller(key_text), key_text.partition(".")[0]
    began = clock.now()
    noted = []
    for seconds in (0, 59, 61):
        set_clock(began + timedelta(seconds=seconds))
        feed.get("/state/facts/price.AAPL").ok()
        noted.append(Key.objects.get(key_id=key_id).last_used_at)
    assert noted == [began, began, began + timedelta(seconds=61)]


def test_an_agent_is_seen_when_it_calls(trader: api_client.Caller, set_clock: SetClock) -> None:
    later = clock.now() + timedelta(minutes=2)
    set_clock(later)
    trader.get("/schema/policy").ok()
    assert Agent.objects.get(agent_id="trader").last_seen_at == later


def test_a_call_that_forgot_its_guard_fails_loudly() -> None:
    request = HttpRequest()
    for read in (auth.session_of, auth.feed_key_of, auth.agent_key_of):
        with pytest.raises(TypeError):
            read(request)
    vars(request)["auth"] = Key(feed="prices")
    with pytest.raises(TypeError):
        auth.agent_key_of(request)


def test_needs_no_csrf_token_and_sets_no_cookie(trader: api_client.Caller) -> None:
    trader.client = Client(enforce_csrf_checks=True)
    trader.open_flow()
    assert not trader.client.cookies
