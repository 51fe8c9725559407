"""One agent process of a burst: a flow, a context and a proposal, again and again."""

import random
import time
from collections import Counter
from dataclasses import dataclass, field

from demo.client import LONGEST_WAIT_S, Client
from demo.http_client import CallRefused, Unreachable
from tests.load.shapes import SHAPES


@dataclass(frozen=True)
class Share:
    """What one process has to do; ``patience_s`` bounds one request, ``wait_s`` all outcomes together."""

    base_url: str
    agent_id: str
    key: str
    kind: str
    proposals: int
    seed: int
    patience_s: float
    wait_s: float


@dataclass
class Tally:
    """What one process saw; times in milliseconds, intents by DFID, outcomes by intent id."""

    sent: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    propose_ms: list[float] = field(default_factory=list)
    round_ms: list[float] = field(default_factory=list)
    intents: dict[str, str] = field(default_factory=dict)
    outcomes: dict[str, str] = field(default_factory=dict)
    retries: int = 0
    ended: float = 0.0


def work(share: Share) -> Tally:
    """Send the share one after the other, then wait for what became of it."""
    client = Client(
        base_url=share.base_url, agent_id=share.agent_id, key=share.key, patience_s=share.patience_s
    )
    rng, tally = random.Random(share.seed), Tally()
    for _ in range(share.proposals):
        _propose(client, share, rng, tally)
    tally.ended = time.time()
    _collect(client, tally, deadline=time.monotonic() + share.wait_s)
    tally.retries = client.wire.retries
    client.wire.close()
    return tally


def _propose(client: Client, share: Share, rng: random.Random, tally: Tally) -> None:
    tally.sent += 1
    began = time.perf_counter()
    try:
        dfid = client.open_flow(trigger="load")
        body = SHAPES[share.kind](client.context(dfid), rng)
        asked = time.perf_counter()
        verdict = client.propose(dfid, body, idempotency_key=f"load-{dfid}")
    except (CallRefused, Unreachable) as trouble:
        tally.errors[_kind(trouble)] += 1
        return
    now = time.perf_counter()
    tally.propose_ms.append((now - asked) * 1000)
    tally.round_ms.append((now - began) * 1000)
    tally.verdicts[verdict.verdict] += 1
    tally.reasons.update(verdict.codes())
    if verdict.verdict == "ACCEPT" and verdict.intent_id is not None:
        tally.intents[dfid] = verdict.intent_id


def _collect(client: Client, tally: Tally, *, deadline: float) -> None:
    for dfid, intent_id in tally.intents.items():
        try:
            status = _outcome(client, dfid, deadline=deadline)
        except (CallRefused, Unreachable) as trouble:
            tally.errors[f"feedback: {_kind(trouble)}"] += 1
            continue
        if status is not None:
            tally.outcomes[intent_id] = status


def _outcome(client: Client, dfid: str, *, deadline: float) -> str | None:
    after = 0
    while True:
        wait_s = max(0, min(LONGEST_WAIT_S, int(deadline - time.monotonic())))
        events, after = client.feedback(dfid, after=after, wait_s=wait_s)
        for event in events:
            if event.event_type == "EXECUTION_OUTCOME":
                return str(event.data.get("status", ""))
        if wait_s == 0:
            return None


def _kind(trouble: CallRefused | Unreachable) -> str:
    if isinstance(trouble, CallRefused):
        return f"{trouble.status} {trouble.code}".strip()
    return type(trouble.__cause__).__name__
