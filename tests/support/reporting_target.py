"""A target that takes orders on with 202, and reports on them as it is told to."""

import json
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client
from standardwebhooks.webhooks import Webhook

from tests.support import trading_desk
from tests.support.misbehaving_targets import StandIn

SECRET_ENV = "TRIAL_SECRET"
SECRET = "whsec_" + "c2VjcmV0" * 5
PUBLIC_URL = "https://console.example"
TAKEN_ON = (202, b"")


def pack(*, deadline_s: int = 600, more: str = "", kind: str = "") -> str:
    """The trial pack with a step whose result is reported later, and `more` steps after it."""
    order = "request: {method: POST, path: /orders}}"
    later = f"request: {{method: POST, path: /orders}}, callback: {{deadline_s: {deadline_s}}}}}"
    text = trading_desk.PACK.replace(order, later + (f"\n      {more}" if more else ""))
    if more:
        text = text.replace("callback:", "compensate: {path: /orders/undo}, callback:")
    text = text.replace("    steps:", f"{kind}    steps:")
    return text.replace("refuses: [503]", f"refuses: [503], secret_env: {SECRET_ENV}")


def open_desk(
    monkeypatch: pytest.MonkeyPatch, settings: Any, *, url: str, pack_text: str = ""
) -> trading_desk.Desk:
    """The desk of that pack, at a console that has an address."""
    monkeypatch.setenv(SECRET_ENV, SECRET)
    settings.DIR_PUBLIC_URL = PUBLIC_URL
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    monkeypatch.setattr(trading_desk, "PACK", pack_text or pack())
    return trading_desk.open_desk(base_url=url)


def address_of(target: StandIn, *, call: int = -1) -> str:
    """The path that a call named for its result."""
    address = urlsplit(str(json.loads(target.seen[call].body)["callback_url"]))
    assert f"{address.scheme}://{address.netloc}" == PUBLIC_URL
    return address.path


def token_of(target: StandIn, *, call: int = -1) -> str:
    """The token in it."""
    return PurePosixPath(address_of(target, call=call)).name


def signed(body: bytes, *, secret: str = SECRET, at: datetime | None = None) -> dict[str, str]:
    """The headers of a signature, by the names that Django's client wants."""
    moment = at or datetime.now(UTC)
    return {
        "webhook-id": "msg-1",
        "webhook-timestamp": str(int(moment.timestamp())),
        "webhook-signature": Webhook(secret).sign("msg-1", moment, body.decode()),
    }


def report(
    path: str, said: object, *, headers: dict[str, str] | None = None, body: bytes | None = None
) -> tuple[int, dict[str, Any]]:
    """Send a report; status and body of the answer."""
    sent = json.dumps(said).encode() if body is None else body
    answer = Client().post(
        path, sent, content_type="application/json", headers=signed(sent) if headers is None else headers
    )
    return answer.status_code, json.loads(answer.content)
