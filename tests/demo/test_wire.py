"""The demo's connection is patient where that is safe, and sends the same request again."""

import socket
import threading

import pytest

from demo.http_client import CallRefused, Stopped, Unreachable, Wire
from tests.demo.paper import PaperBroker, ThreadBroker

ORDER = {"params": {"symbol": "MSFT", "quantity": 1}}
KEY = {"Idempotency-Key": "k-1"}


def test_tries_again_while_the_server_is_out_of_order(broker: ThreadBroker) -> None:
    broker.control("fail", times=3)
    wire = Wire(base_url=broker.base_url)

    assert wire.fetch("POST", "/orders", body=ORDER, headers=KEY).status == 200
    wire.close()
    assert wire.retries == 3
    assert broker.count()["effects"] == 1


def test_sends_the_same_key_again_when_the_answer_was_lost(broker: ThreadBroker) -> None:
    broker.control("drop_after", times=2)
    wire = Wire(base_url=broker.base_url)

    answer = wire.fetch("POST", "/orders", body=ORDER, headers=KEY)
    wire.close()

    assert answer.body["status"] == "FILLED"
    assert broker.count()["effects"] == 1
    assert broker.count()["most_calls_of_one_key"] == 3


def test_opens_a_new_connection_after_the_server_came_back(broker_process: PaperBroker) -> None:
    wire = Wire(base_url=broker_process.base_url)
    assert wire.fetch("GET", "/market").body["state"] == "OPEN"
    broker_process.kill()
    broker_process.start()

    assert wire.fetch("GET", "/market").body["state"] == "OPEN"
    wire.close()


def test_raises_what_trying_again_would_not_change(broker: ThreadBroker) -> None:
    wire = Wire(base_url=broker.base_url)

    with pytest.raises(CallRefused) as refusal:
        wire.fetch("POST", "/orders", body=ORDER)
    wire.close()

    assert refusal.value.status == 400
    assert wire.retries == 0


def test_gives_up_when_patience_ends() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        wire = Wire(base_url=f"http://127.0.0.1:{taken.getsockname()[1]}", patience_s=0.3)

        with pytest.raises(Unreachable):
            wire.call("GET", "/market")


def test_stops_waiting_when_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        stop = threading.Event()
        wire = Wire(base_url=f"http://127.0.0.1:{taken.getsockname()[1]}", patience_s=60, stop=stop)
        stop.set()

        with pytest.raises(Stopped):
            wire.call("GET", "/market")
