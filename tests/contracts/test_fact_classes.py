"""Classes of facts: how they are written, and which one a fact is of."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from dir_console import env
from runtime.contracts.retention import FactClass, read_fact_classes
from runtime.maintenance.queries.old_facts import class_of


def test_the_narrowest_class_of_a_fact_counts() -> None:
    classes = read_fact_classes(["*=365", "price.=30", "price.AAPL=0"])
    assert [of.selector for of in classes] == ["price.AAPL", "price.", "*"]
    assert class_of("price.AAPL", classes) == FactClass("price.AAPL", 0)
    assert class_of("price.AAPL2", classes) == FactClass("price.", 30)
    assert class_of("prices.AAPL", classes) == FactClass("*", 365)


def test_a_fact_may_have_no_class() -> None:
    assert class_of("price.AAPL", read_fact_classes(["news.=7"])) is None
    assert read_fact_classes([]) == ()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["price=7"], "names no facts"),
        (["=7"], "names no facts"),
        (["Price.=7"], "names no facts"),
        (["price.*=7"], "names no facts"),
        (["price."], "no number of days"),
        (["price.=-1"], "no number of days"),
        (["price.=1.5"], "no number of days"),
        (["price.=\u0663"], "no number of days"),
        (["price.=36501"], "no number of days"),
        (["price.=1", "price.=2"], "named twice"),
    ],
)
def test_what_cannot_be_read_is_said(words: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_fact_classes(words)


def test_a_setting_that_cannot_be_read_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIR_FACT_RETENTION", "price.=30, *=365")
    assert env.fact_classes() == (FactClass("price.", 30), FactClass("*", 365))
    monkeypatch.setenv("DIR_FACT_RETENTION", "price=30")
    with pytest.raises(ImproperlyConfigured, match="DIR_FACT_RETENTION cannot be read: 'price=30' names"):
        env.fact_classes()
