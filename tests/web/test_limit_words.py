"""A value beside its limit: most limits are the most that is allowed, and some are not."""

import pytest
from django.template import engines

from runtime.core.views import labels

SENTENCES = [
    (
        "RISK_LIMIT_EXCEEDED",
        "473382",
        "100000",
        "cents USD",
        "4,733.82 USD; limit 1,000.00 USD (373 % above)",
    ),
    ("RISK_LIMIT_EXCEEDED", "7", "5", "", "7; limit 5 (40 % above)"),
    ("RISK_LIMIT_EXCEEDED", "7", "0", "", "7; limit 0"),
    ("RISK_LIMIT_EXCEEDED", "many", "5", "", "many; limit 5"),
    ("RISK_LIMIT_EXCEEDED", "7", "", "", "7"),
    ("LOW_CONFIDENCE", "0.5", "0.72", "", "Confidence 0.5; 0.72 needed"),
    ("INSUFFICIENT_LIQUIDITY", "50000", "30000", "cents USD", "500.00 USD; 300.00 USD available"),
    ("ESCALATION_BUDGET_EXHAUSTED", "1", "0", "", "1; 0 left"),
    ("STALE_CONTEXT", "18950", "19000", "", "18,950, now 19,000"),
    ("EXPIRED", "12:00", "11:59", "", "12:00, valid until 11:59"),
]


@pytest.mark.parametrize(("code", "value", "limit", "unit", "sentence"), SENTENCES)
def test_reads_as_a_sentence(code: str, value: str, limit: str, unit: str, sentence: str) -> None:
    shown, most = labels.value_and_limit(code, value, limit, unit)
    assert labels.compared(code, shown, most) == sentence
    template = engines["django"].from_string("{% compared code value limit %}")
    assert template.render({"code": code, "value": shown, "limit": most}) == sentence


def test_what_an_agent_wrote_is_escaped() -> None:
    template = engines["django"].from_string("{% compared code value limit %}")
    shown = template.render({"code": "LOW_CONFIDENCE", "value": "<b>", "limit": "<i>"})
    assert shown == "&lt;b&gt;; &lt;i&gt; needed"
