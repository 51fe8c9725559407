"""The paper broker keeps each effect once, and shows its callers every fault a real target has."""

import contextlib
import http.client
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from standardwebhooks.webhooks import Webhook

from demo import desk_services
from demo.desk_services import HALT_S, LARGE_BLOCK_SHARES, LENT_SHARES
from demo.http_client import Unreachable, Wire
from demo.market import CARE_FROM_S, CASH, HELD, Schedule
from demo.parent_death import PARENT_ENV
from tests.demo.paper import PaperBroker, ThreadBroker, gone
from tests.support.wait_until import until

ORDER = {"dfid": "d-1", "intent_id": "i-1", "params": {"symbol": "AAPL", "quantity": 2, "action": "BUY"}}
PACK = Path(__file__).parents[2] / "demo" / "paper-brokerage.yaml"
SECRET = "whsec_" + "c2VjcmV0LW9mLXRoZS1wYXBlci1icm9rZXI="


def test_answers_the_same_receipt_for_the_same_key(broker: ThreadBroker) -> None:
    first = broker.call("POST", "/orders", ORDER, key="k-1")
    again = broker.call("POST", "/orders", ORDER, key="k-1")

    assert first.status == again.status == 200
    assert first.body == again.body
    assert first.body["status"] == "FILLED"
    assert first.body["symbol"] == "AAPL"
    assert (first.headers["idempotency-replayed"], again.headers["idempotency-replayed"]) == ("false", "true")
    assert broker.count() == {
        "effects": 1,
        "calls": 2,
        "distinct_keys": 1,
        "duplicates_refused": 1,
        "conflicts_refused": 0,
        "most_calls_of_one_key": 2,
    }


def test_refuses_a_known_key_with_another_body(broker: ThreadBroker) -> None:
    broker.call("POST", "/orders", ORDER, key="k-1")

    assert broker.call("POST", "/orders", {**ORDER, "dfid": "d-2"}, key="k-1").status == 422
    assert broker.call("POST", "/transfers", ORDER, key="k-1").status == 422
    assert broker.count()["effects"] == 1
    assert broker.count()["conflicts_refused"] == 2


def test_does_the_work_once_for_fifty_callers_at_once(broker: ThreadBroker) -> None:
    receipts: list[object] = []

    def order() -> None:
        receipts.append(broker.call("POST", "/orders", ORDER, key="k-race").body["order_id"])

    threads = [threading.Thread(target=order) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)

    assert len(receipts) == 50
    assert len(set(receipts)) == 1
    assert broker.count()["effects"] == 1
    assert broker.count()["calls"] == 50


def test_tells_by_key_whether_anything_was_done(broker: ThreadBroker) -> None:
    broker.call("POST", "/watchlist", ORDER, key="k/with slash")

    found = broker.call("GET", "/effects/k%2Fwith%20slash")
    assert (found.status, found.body["dfid"], found.body["receipt"]["status"]) == (200, "d-1", "UPDATED")
    assert broker.call("GET", "/effects/k-2").status == 404


def test_declines_what_the_basket_desk_does_not_buy_now_and_keeps_nothing(tmp_path: Path) -> None:
    paper = ThreadBroker(db=tmp_path / "broker.sqlite3", market=Schedule.CYCLE)
    try:
        declined = paper.call("POST", "/baskets/buy", ORDER, key="k-1")  # a cycle begins with AAPL
        sold = paper.call("POST", "/baskets/sell", ORDER, key="k-2")
        undone = paper.call("POST", "/baskets/undo", ORDER, key="k-3")
        paper.exchange.schedule = Schedule.OPEN
        later = paper.call("POST", "/baskets/buy", ORDER, key="k-1")

        assert (declined.status, sold.status, undone.status, later.status) == (422, 200, 200, 200)
        assert undone.body["status"] == "UNDONE"
        assert paper.count()["effects"] == 3
    finally:
        paper.stop()


def test_the_desk_services_move_neither_positions_nor_cash(broker: ThreadBroker) -> None:
    asked = {"params": {"symbol": "AAPL", "shares": 1}}
    for number, path in enumerate(sorted(desk_services.PATHS)):
        done = broker.call("POST", path, asked, key=f"k-{number}").body
        assert (done["shares"], done.keys() & {"position", "moves", "cash"}) == (1, set())
    assert broker.call("POST", "/orders", ORDER, key="k-order").body["position"] == HELD["AAPL"] + 2


def test_declines_more_shares_than_the_lenders_have(broker: ThreadBroker) -> None:
    asked = {"params": {"symbol": "AAPL", "shares": LENT_SHARES}}
    more = {"params": {"symbol": "AAPL", "shares": LENT_SHARES + 1}}
    assert broker.call("POST", "/borrows", asked, key="k-1").body["status"] == "LOCATED"
    declined = broker.call("POST", "/borrows", more, key="k-2")
    assert (declined.status, declined.body["error"]) == (
        422,
        f"the lenders have {LENT_SHARES} shares of AAPL",
    )


def test_halts_the_trade_in_blocks_for_a_while_after_a_large_one(
    broker: ThreadBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1_000.0
    monkeypatch.setattr(desk_services, "monotonic", lambda: now_s)

    def trade(path: str, shares: int, key: str) -> tuple[int, object]:
        answer = broker.call("POST", f"/blocks/{path}", {"params": {"shares": shares}}, key=key)
        return answer.status, answer.body.get("blocks")

    assert trade("sell", LARGE_BLOCK_SHARES - 1, "k-1") == (200, "OPEN")
    assert trade("sell", LARGE_BLOCK_SHARES, "k-2") == (200, "HALTED")
    assert broker.call("GET", "/market").body == {"state": "OPEN", "blocks": "HALTED"}
    assert trade("buy", 1, "k-3")[0] == 422
    assert trade("undo", 1, "k-4")[0] == 200, "what undoes a sale is taken all the same"
    now_s += HALT_S
    assert trade("buy", 1, "k-3")[0] == 200
    assert broker.call("GET", "/market").body == {"state": "OPEN", "blocks": "OPEN"}


def test_keeps_the_position_over_orders_and_what_undoes_them(broker: ThreadBroker) -> None:
    bought = broker.call("POST", "/orders", ORDER, key="k-1")
    again = broker.call("POST", "/orders", ORDER, key="k-1")
    sale = {"dfid": "d-1", "intent_id": "i-1", "symbol": "AAPL", "quantity": 5, "action": "SELL"}
    sold = broker.call("POST", "/baskets/sell", sale, key="k-2")
    undone = broker.call("POST", "/baskets/undo", {**sale, "action": "BUY"}, key="k-3")

    positions = [answer.body["position"] for answer in (bought, again, sold, undone)]
    assert positions == [122, 122, 117, 122]


def test_keeps_the_cash_that_orders_and_transfers_move(broker: ThreadBroker) -> None:
    bought = broker.call("POST", "/orders", ORDER, key="k-1").body
    again = broker.call("POST", "/orders", ORDER, key="k-1").body
    spent = 2 * bought["price_cents"]
    assert bought["cash"] == again["cash"] == {"operations": CASH["operations"] - spent}
    transfer = {"params": {"amount_cents": 500, "from_account": "reserve", "to_account": "operations"}}
    sent = broker.call("POST", "/transfers", transfer, key="k-2").body
    assert sent["cash"] == {
        "reserve": CASH["reserve"] - 500,
        "operations": CASH["operations"] - spent + 500,
    }
    nowhere = {"params": {"amount_cents": 500, "from_account": "reserve", "to_account": "moon"}}
    assert "cash" not in broker.call("POST", "/transfers", nowhere, key="k-3").body


def test_the_pack_starts_with_what_the_broker_holds() -> None:
    facts = yaml.safe_load(PACK.read_text())["facts"]
    assert facts["position"] == HELD
    assert facts["cash"] == CASH


def test_every_fact_that_a_kind_of_the_demo_predicts_is_written_by_a_step_of_it() -> None:
    for kind in yaml.safe_load(PACK.read_text())["policy_kinds"]:
        predicted = {item["fact"] for item in kind.get("predicts", ())}
        written = {item["fact"] for step in kind["steps"] for item in step.get("writes", ())}
        assert predicted, kind["kind"]
        assert predicted <= written, kind["kind"]


def test_is_out_of_order_for_the_watchlist_alone_while_it_is_looked_after(tmp_path: Path) -> None:
    paper = ThreadBroker(db=tmp_path / "broker.sqlite3", market=Schedule.CYCLE)
    paper.exchange.started -= CARE_FROM_S + 1
    try:
        assert paper.call("POST", "/watchlist", ORDER, key="k-1").status == 503
        assert paper.call("POST", "/orders", ORDER, key="k-2").status == 200
        assert paper.count()["effects"] == 1
    finally:
        paper.stop()


@pytest.mark.parametrize("path", ["/orders", "/transfers", "/watchlist"])
def test_refuses_a_call_without_a_key(broker: ThreadBroker, path: str) -> None:
    assert broker.call("POST", path, ORDER).status == 400
    assert broker.count()["calls"] == 0


def test_fails_as_often_as_told_and_then_works(broker: ThreadBroker) -> None:
    broker.control("fail", times=2)

    statuses = [broker.call("POST", "/orders", ORDER, key="k-1").status for _ in range(3)]

    assert statuses == [503, 503, 200]
    assert broker.count()["calls"] == 3
    assert broker.count()["duplicates_refused"] == 0


def test_fails_about_the_share_it_was_told(broker: ThreadBroker) -> None:
    broker.control("fail", fail_ratio=0.5)

    statuses = [broker.call("POST", "/orders", ORDER, key=f"k-{n}").status for n in range(60)]

    assert 15 <= statuses.count(503) <= 45
    assert broker.count()["effects"] == statuses.count(200)


def test_does_the_work_before_it_drops_the_connection(broker: ThreadBroker) -> None:
    broker.control("drop_after", times=1)

    with pytest.raises(Unreachable):
        broker.call("POST", "/orders", ORDER, key="k-1")

    assert broker.call("GET", "/effects/k-1").status == 200


@pytest.mark.parametrize(("mode", "done"), [("slow", False), ("slow_after", True)])
def test_answers_late_before_or_after_the_work(broker: ThreadBroker, mode: str, done: bool) -> None:
    broker.control(mode, delay_ms=60_000)

    with pytest.raises(Unreachable):
        broker.call("POST", "/orders", ORDER, key="k-1", timeout_s=0.3)

    assert (broker.call("GET", "/effects/k-1").status == 200) is done


def test_answers_rubbish_and_does_nothing(broker: ThreadBroker) -> None:
    broker.control("garbage", times=1)

    answer = broker.call("POST", "/orders", ORDER, key="k-1")

    assert (answer.status, answer.body) == (200, {})
    assert broker.count()["effects"] == 0


@pytest.mark.parametrize(
    "order",
    [
        {"mode": "no"},
        {"mode": "slow", "delay_ms": -1},
        {"mode": "fail", "fail_ratio": 2},
        {"mode": "fail", "times": 0},
    ],
)
def test_refuses_a_fault_it_does_not_know(broker: ThreadBroker, order: dict[str, object]) -> None:
    assert broker.call("POST", "/control", order).status == 400
    assert broker.call("POST", "/orders", ORDER, key="k-1").status == 200


def test_keeps_its_book_over_a_crash(broker_process: PaperBroker) -> None:
    first = broker_process.call("POST", "/orders", ORDER, key="k-1").body
    broker_process.kill()
    broker_process.start()

    assert broker_process.call("POST", "/orders", ORDER, key="k-1").body == first
    assert broker_process.count()["effects"] == 1


def test_accepts_only_the_signature_of_its_secret(tmp_path: Path) -> None:
    paper = ThreadBroker(db=tmp_path / "signed.sqlite3", secret=SECRET)
    try:
        now = datetime.now(UTC)
        text = '{"params": {"symbol": "AAPL"}}'
        headers = {
            "webhook-id": "m-1",
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": Webhook(SECRET).sign("m-1", now, text),
            "Idempotency-Key": "k-1",
        }
        wire = Wire(base_url=paper.base_url, patience_s=0)
        body = {"params": {"symbol": "AAPL"}}
        assert wire.call("POST", "/orders", body=body, headers=headers).status == 200
        forged = {**headers, "webhook-signature": "v1,AAAA"}
        assert wire.call("POST", "/orders", body=body, headers=forged).status == 401
        assert wire.call("POST", "/orders", body=body, headers={**headers, "webhook-id": "m-2"}).status == 401
        wire.close()
        assert paper.call("POST", "/orders", body, key="k-2").status == 401
    finally:
        paper.stop()


@pytest.mark.parametrize(
    ("raw", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"[1]", {}, 400),
        (b"{}", {"Content-Length": "2000000"}, 413),
        (b"{}", {"Content-Length": "many"}, 411),
    ],
)
def test_refuses_a_body_it_cannot_read(
    broker: ThreadBroker, raw: bytes, headers: dict[str, str], status: int
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", broker.port, timeout=60)
    with contextlib.closing(connection):
        connection.putrequest("POST", "/orders")
        for name, value in ({"Content-Length": str(len(raw))} | headers).items():
            connection.putheader(name, value)
        connection.endheaders(raw)
        answer = connection.getresponse()
        answer.read()

    assert answer.status == status
    assert broker.count()["calls"] == 0


def test_shows_its_newest_orders_first(broker: ThreadBroker) -> None:
    for number in range(3):
        broker.call("POST", "/orders", {**ORDER, "dfid": f"d-{number}"}, key=f"k-{number}")

    newest = broker.call("GET", "/orders?limit=2").body["orders"]
    assert [order["dfid"] for order in newest] == ["d-2", "d-1"]
    assert [row["key"] for row in broker.call("GET", "/effects?after=1").body["effects"]] == ["k-1", "k-2"]


def test_knows_no_other_path(broker: ThreadBroker) -> None:
    assert broker.call("GET", "/secrets").status == 404
    assert broker.call("POST", "/secrets", ORDER, key="k-1").status == 404


def test_answers_to_loopback_names_only(broker: ThreadBroker) -> None:
    wire = Wire(base_url=broker.base_url, patience_s=0)

    assert wire.call("GET", "/prices", headers={"Host": "broker.example"}).status == 403
    wire.close()


def test_keeps_a_connection_for_many_calls(broker: ThreadBroker) -> None:
    wire = Wire(base_url=broker.base_url, patience_s=0)
    for n in range(100):
        assert wire.call("POST", "/orders", body=ORDER, headers={"Idempotency-Key": f"k-{n}"}).status == 200
    wire.close()


def test_ends_cleanly_when_told(broker_process: PaperBroker) -> None:
    broker_process.control("slow", delay_ms=60_000)
    threading.Thread(target=_ignore_the_end, args=(broker_process,), daemon=True).start()

    assert broker_process.stop() == 0


def _ignore_the_end(broker: PaperBroker) -> None:
    try:
        broker.call("POST", "/orders", ORDER, key="k-1")
    except Unreachable:
        return


def test_dies_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen(sys.argv[1:], stderr=subprocess.PIPE, text=True)\n"
        "child.stderr.readline()\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    argv = [sys.executable, "-c", code, sys.executable, "-m", "demo.broker"]
    argv += ["--port", "0", "--db", str(tmp_path / "b.sqlite3")]
    env = {name: value for name, value in os.environ.items() if name != PARENT_ENV}
    parent = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait(timeout=60)
    parent.stdout.close()

    until(lambda: gone(child), timeout_s=90)
