"""Receivers of events for tests: rows by the service, a real HTTP receiver, and a ledger that is sealed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from pytest_django.fixtures import Settings
from standardwebhooks.webhooks import Webhook

from runtime.contracts.problem import Problem
from runtime.contracts.receiver import EventFormat, ReceiverKind
from runtime.core import clock
from runtime.maintenance.services import sealing
from runtime.outward.models import Receiver
from runtime.outward.services import receivers
from runtime.outward.services.receivers import Wanted
from tests.support import incident_story, notice_receivers
from tests.support.misbehaving_targets import Seen

TENANT, ADMIN = "default", "user:1"
SECRET_ENV = "DIR_TEST_EVENTS"
SECRET = "whsec_ZXZlbnRzLXNlY3JldC1vZi0zMi1ieXRlcy0tLSEhISE="


def allow(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let calls go to loopback, and give the secret."""
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    monkeypatch.setenv(SECRET_ENV, SECRET)


def wanted(place: str, **changes: Any) -> Wanted:
    """A webhook named `hook` that gets refused requests, but for `changes`."""
    return Wanted(
        **{
            "name": "hook",
            "kind": ReceiverKind.WEBHOOK,
            "format": EventFormat.CLOUDEVENTS,
            "patterns": ("request:refused",),
            "place": place,
            "secret_env": SECRET_ENV,
            **changes,
        }
    )


def add(place: str, *, from_beginning: bool = False, **changes: Any) -> Receiver:
    """Such a receiver by the service."""
    answer = receivers.add(
        tenant=TENANT, wanted=wanted(place, **changes), from_beginning=from_beginning, actor=ADMIN
    )
    assert not isinstance(answer, Problem), answer
    return answer


@contextmanager
def hook(**changes: Any) -> Iterator[tuple[notice_receivers.Receiver, Receiver]]:
    """A real HTTP receiver, and its row."""
    with notice_receivers.receiver() as place:
        yield place, add(place.url, **changes)


def seal(*codes: str) -> None:
    """Write an entry for each code, as an agent's refused request, and seal them."""
    for code in codes:
        incident_story.refuse(code=code)
    sealing.seal_now()


def make_due() -> None:
    """The next round tries every receiver."""
    Receiver.objects.update(next_at=clock.now())


def again(row: Receiver) -> Receiver:
    """The receiver as it is stored now."""
    return Receiver.objects.get(pk=row.pk)


def read(request: Seen) -> BaseCloudEvent:
    """What a receiver reads with the libraries of others, once the signature is verified."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    Webhook(SECRET).verify(request.body.decode(), headers)
    return from_http_event(HTTPMessage(headers, request.body))


def codes(requests: Sequence[Seen]) -> list[str]:
    """The code of each event, in order."""
    return [data_of(request)["payload"]["code"] for request in requests]


def data_of(request: Seen) -> dict[str, Any]:
    """The data of an event."""
    data = read(request).get_data()
    assert isinstance(data, dict)
    return data
