"""A value beside its limit: most limits are the most that is allowed, and some are not."""

import pytest
from django.template import engines

from runtime.core.views import labels

SENTENCES = [
    ("RISK_LIMIT_EXCEEDED", "7", "5", "7 of 5 allowed"),
    ("LOW_CONFIDENCE", "0.55", "0.7", "0.55, at least 0.7 required"),
    ("STALE_CONTEXT", "18950", "19000", "18950, now 19000"),
    ("EXPIRED", "12:00", "11:59", "12:00, valid until 11:59"),
    ("RISK_LIMIT_EXCEEDED", "7", "", "7"),
]


@pytest.mark.parametrize(("code", "value", "limit", "sentence"), SENTENCES)
def test_reads_as_a_sentence(code: str, value: str, limit: str, sentence: str) -> None:
    assert labels.compared(code, value, limit) == sentence
    template = engines["django"].from_string("{% compared code value limit %}")
    assert template.render({"code": code, "value": value, "limit": limit}) == sentence


def test_what_an_agent_wrote_is_escaped() -> None:
    template = engines["django"].from_string("{% compared code value limit %}")
    shown = template.render({"code": "LOW_CONFIDENCE", "value": "<b>", "limit": "<i>"})
    assert shown == "&lt;b&gt;, at least &lt;i&gt; required"
