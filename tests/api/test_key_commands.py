"""`issue_key` prints the key alone; `revoke_key` ends it."""

import io
import re

import pytest
from django.core.management import CommandError, call_command

from runtime.registry.models import Key
from tests.support import api_client


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command(*arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


@pytest.mark.usefixtures("desk")
def test_prints_an_agents_key_alone_and_it_works() -> None:
    printed = run("issue_key", "trader")
    assert printed.count("\n") == 1
    assert printed.endswith("\n")
    api_client.Caller(printed.strip()).post("/handshake", api_client.hello()).ok()


@pytest.mark.usefixtures("desk")
def test_prints_a_feeds_key_alone_and_it_works() -> None:
    printed = run("issue_key", "--feed", "prices", "--prefix", "price.")
    api_client.Caller(printed.strip()).put("/state/facts/price.AAPL", {"value": 1}).ok()


@pytest.mark.usefixtures("desk")
def test_prints_an_auditors_key_alone_and_it_works() -> None:
    printed = run("issue_key", "--auditor", "regulator")
    assert re.fullmatch(r"auk_[0-9a-f]{16}\.[A-Za-z0-9_-]{43}\n", printed)
    api_client.Caller(printed.strip()).get("/audit/keys").ok()
    run("revoke_key", printed.strip())
    api_client.Caller(printed.strip()).get("/audit/keys").problem(401, "UNAUTHENTICATED")


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize("whole", [True, False])
def test_revokes_by_id_also_where_the_whole_key_is_pasted(whole: bool) -> None:
    key = run("issue_key", "trader").strip()
    assert run("revoke_key", key if whole else key.partition(".")[0]) == ""
    api_client.Caller(key).post("/handshake", api_client.hello()).problem(401, "UNAUTHENTICATED")


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize(
    "arguments",
    [
        ("issue_key",),
        ("issue_key", "nobody"),
        ("issue_key", "trader", "--feed", "prices", "--prefix", "price."),
        ("issue_key", "--feed", "prices"),
        ("issue_key", "--prefix", "price."),
        ("issue_key", "--feed", "prices", "--prefix", "price"),
        ("issue_key", "--auditor", "a b"),
        ("issue_key", "trader", "--auditor", "regulator"),
        ("issue_key", "--auditor", "regulator", "--prefix", "price."),
        ("issue_key", "--auditor", "regulator", "--feed", "prices", "--prefix", "price."),
        ("revoke_key", "agk_0123456789abcdef"),
    ],
)
def test_says_what_is_wrong(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match=r"\w"):
        run(*arguments)
    assert not Key.objects.exists()
