"""Writers of one fact at once: no version twice, none lost."""

from runtime.state.models import Fact, FactVersion
from tests.concurrency.test_idempotency import race, statuses
from tests.support import api_client

WRITERS = 20
PATH = "/state/facts/price.AAPL"


def test_of_twenty_conditional_writers_one_wins(real_db: str) -> None:
    api_client.load_pack()
    token = api_client.feed_key()
    etag = api_client.Caller(token).get(PATH).ok()["etag"]
    answers = race(
        WRITERS, lambda number: api_client.Caller(token).put(PATH, {"value": number}, {"If-Match": etag})
    )
    assert statuses(answers) == {200: 1, 412: WRITERS - 1}
    assert Fact.objects.get(path="price.AAPL").version == 2


def test_twenty_unconditional_writers_all_get_a_version(real_db: str) -> None:
    api_client.load_pack()
    token = api_client.feed_key()
    answers = race(WRITERS, lambda number: api_client.Caller(token).put(PATH, {"value": number}))
    assert statuses(answers) == {200: WRITERS}
    assert sorted(answer.body["version"] for answer in answers) == list(range(2, WRITERS + 2))
    kept = FactVersion.objects.filter(path="price.AAPL").order_by("version")
    assert [row.version for row in kept] == list(range(1, WRITERS + 2))
    assert bytes(kept[WRITERS].value) == bytes(Fact.objects.get(path="price.AAPL").value)


def test_twenty_writers_of_a_new_fact_all_get_a_version(real_db: str) -> None:
    api_client.load_pack()
    token = api_client.feed_key()
    answers = race(
        WRITERS, lambda number: api_client.Caller(token).put("/state/facts/price.NEW", {"value": number})
    )
    assert statuses(answers) == {200: WRITERS}
    assert sorted(answer.body["version"] for answer in answers) == list(range(1, WRITERS + 1))


def test_writers_of_many_facts_share_a_stream(real_db: str) -> None:
    api_client.load_pack()
    token = api_client.feed_key()
    answers = race(
        WRITERS,
        lambda number: api_client.Caller(token).put(f"/state/facts/price.N{number}", {"value": number}),
    )
    assert statuses(answers) == {200: WRITERS}


def test_twenty_equal_writes_under_one_key_are_one_version(real_db: str) -> None:
    api_client.load_pack()
    token = api_client.feed_key()
    answers = race(
        WRITERS,
        lambda _: api_client.Caller(token).put(
            "/state/facts/price.NEW", {"value": 1}, {"Idempotency-Key": "once"}
        ),
    )
    assert statuses(answers) == {200: WRITERS}
    assert len({answer.body["write_id"] for answer in answers}) == 1
    assert Fact.objects.get(path="price.NEW").version == 1
