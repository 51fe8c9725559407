"""Does an explanation fit what is proposed? Deterministic, without a model (DIR paper, 6.3).

It compares words of opposite actions, names and amounts. It is easy to deceive and easy to mistake, so it
may only ever point: nothing is permitted because of what an agent says about itself.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from runtime.contracts.guard import MAX_MESSAGE_CHARS, GuardFinding, GuardResult, text
from runtime.kernel import effects
from runtime.kernel.guards import actions, amounts, confidence, names, param_values, text_tokens

MAX_FINDINGS = 8


def examine(
    *, explain: str, params: Mapping[str, Any], choices: Mapping[str, Sequence[str]] | None = None
) -> GuardResult:
    """What in `explain` speaks against `params`, and how sure that is.

    `choices` are the values that each parameter may hold, where its schema lists them. Never fails: any text
    is read up to `text_tokens.MAX_CHARS`; without an explanation there is nothing to find.
    """
    tokens = text_tokens.read(explain)
    if not tokens:
        return GuardResult(findings=(), confidence=text(0))
    values = param_values.of(params)
    found = [
        *actions.contradictions(tokens, values),
        *names.contradictions(tokens, values, choices or {}),
        *amounts.contradictions(tokens, values),
    ]
    kept = dict.fromkeys(found[: 2 * MAX_FINDINGS])
    findings = tuple(
        GuardFinding(
            code=code,
            message=effects.visible(sentence)[:MAX_MESSAGE_CHARS],
            confidence=text(confidence.WEIGHTS[code].bps),
        )
        for code, sentence in list(kept)[:MAX_FINDINGS]
    )
    combined = confidence.combined(tuple(finding.code for finding in findings))
    return GuardResult(findings=findings, confidence=text(combined))
