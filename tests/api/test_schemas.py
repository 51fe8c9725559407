"""Schemas are served by version, with entity tags, to those who need to know."""

import pytest

from runtime.packs.services import packs
from tests.support import api_client

LATEST = "/schema/policy/ADJUST_POSITION/latest"


def load_next_version() -> None:
    text = api_client.PACK.replace("version: 1.2.0", "version: 1.3.0").replace(
        "version: 1.0.0\nfacts", "version: 1.1.0\nfacts"
    )
    assert isinstance(packs.load(text=text, source="next", activate=True, actor="system"), packs.Loaded)


def test_lists_what_the_manifest_grants_and_nothing_else(trader: api_client.Caller) -> None:
    kinds = trader.get("/schema/policy").ok()["policy_kinds"]
    assert [(kind["kind"], kind["version"], kind["title"]) for kind in kinds] == [
        ("ADJUST_POSITION", "1.2.0", "Adjust a position")
    ]
    trader.get(kinds[0]["schema_url"].removeprefix("/api/v1")).ok()


def test_serves_the_schemas_of_the_version_in_force(trader: api_client.Caller) -> None:
    body = trader.get(LATEST).ok()
    assert set(body) == {"kind", "version", "params_schema", "constraints_schema"}
    assert body["params_schema"]["required"] == ["symbol", "action", "quantity"]
    assert body == trader.get("/schema/policy/ADJUST_POSITION/1.2.0").ok()


@pytest.mark.parametrize("path", ["/schema/policy", LATEST, "/schema/policy/ADJUST_POSITION/1.2.0"])
def test_says_nothing_twice_to_who_has_it(trader: api_client.Caller, path: str) -> None:
    etag = trader.get(path).headers["ETag"]
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        answer = trader.get(path, {"If-None-Match": known})
        assert (answer.status, answer.content, answer.headers["ETag"]) == (304, b"", etag)
    trader.get(path, {"If-None-Match": '"other"'}).ok()


def test_an_older_version_stays_to_be_read(trader: api_client.Caller) -> None:
    etag = trader.get(LATEST).headers["ETag"]
    load_next_version()
    newer = trader.get(LATEST, {"If-None-Match": etag})
    assert newer.ok()["version"] == "1.3.0"
    assert trader.get("/schema/policy/ADJUST_POSITION/1.2.0").headers["ETag"] == etag


def test_refuses_what_is_not_granted_unknown_or_of_no_such_version(trader: api_client.Caller) -> None:
    trader.get("/schema/policy/TRANSFER_FUNDS/latest").problem(403, "UNAUTHORIZED")
    trader.get("/schema/policy/TRANSFER_FUNDS/1.0.0").problem(403, "UNAUTHORIZED")
    trader.get("/schema/policy/NO_SUCH/latest").problem(404, "CAPABILITY_NOT_FOUND")
    trader.get("/schema/policy/NO_SUCH/1.0.0").problem(404, "CAPABILITY_NOT_FOUND")
    missing = trader.get("/schema/policy/ADJUST_POSITION/9.0.0").problem(404, "VERSION_UNSUPPORTED")
    assert missing["supported"] == "1.2.0"
