"""Runs a burst and prints what came of it as JSON.

``python -m tests.load --base URL --keys FILE --agents 8 --proposals 2000 [--broker URL]``
"""

import argparse
import json
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from tests.load import broker_count
from tests.load.shapes import SHAPES
from tests.load.worker import Share, Tally, work


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests.load", description="A burst of proposals by agent processes."
    )
    parser.add_argument("--base", required=True, metavar="URL")
    parser.add_argument("--keys", required=True, type=Path, metavar="FILE", help="JSON: agent id to key")
    parser.add_argument("--agents", type=int, default=8, help="agent processes; keys are shared round robin")
    parser.add_argument("--proposals", type=int, default=2000, help="in all")
    parser.add_argument("--kind", choices=sorted(SHAPES), default="ADJUST_POSITION")
    parser.add_argument("--only", default="", metavar="AGENT", help="use the key of this agent alone")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds one request is tried for")
    parser.add_argument("--wait", type=float, default=120.0, help="seconds to wait for all outcomes")
    parser.add_argument("--broker", default="", metavar="URL", help="compare with the effects stored there")
    parser.add_argument("--intents", type=Path, metavar="FILE", help="write accepted intents by DFID here")
    return parser.parse_args(argv)


def _shares(chosen: argparse.Namespace) -> list[Share]:
    keys = json.loads(chosen.keys.read_text())
    agents = [chosen.only] if chosen.only else sorted(keys)
    each, rest = divmod(chosen.proposals, chosen.agents)
    return [
        Share(
            base_url=chosen.base,
            agent_id=agents[index % len(agents)],
            key=keys[agents[index % len(agents)]],
            kind=chosen.kind,
            proposals=each + (index < rest),
            seed=index,
            patience_s=chosen.patience,
            wait_s=chosen.wait,
        )
        for index in range(chosen.agents)
    ]


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 1) if ordered else 0.0


def _report(tallies: Sequence[Tally], *, seconds: float, all_seconds: float) -> dict[str, Any]:
    verdicts = sum((tally.verdicts for tally in tallies), Counter[str]())
    outcomes = Counter(status for tally in tallies for status in tally.outcomes.values())
    propose_ms = [ms for tally in tallies for ms in tally.propose_ms]
    round_ms = [ms for tally in tallies for ms in tally.round_ms]
    return {
        "sent": sum(tally.sent for tally in tallies),
        "answered": sum(verdicts.values()),
        "accepted": verdicts["ACCEPT"],
        "rejected": verdicts["REJECT"],
        "escalated": verdicts["ESCALATE"],
        "reasons": dict(sum((tally.reasons for tally in tallies), Counter[str]())),
        "outcomes": sum(outcomes.values()),
        "outcomes_by_status": dict(outcomes),
        "errors": dict(sum((tally.errors for tally in tallies), Counter[str]())),
        "retries": sum(tally.retries for tally in tallies),
        "seconds": round(seconds, 2),
        "proposals_per_s": round(sum(verdicts.values()) / seconds, 1) if seconds else 0.0,
        "propose_p50_ms": _quantile(propose_ms, 0.5),
        "propose_p99_ms": _quantile(propose_ms, 0.99),
        "round_p50_ms": _quantile(round_ms, 0.5),
        "round_p99_ms": _quantile(round_ms, 0.99),
        "seconds_to_last_outcome": round(all_seconds, 2),
    }


def main(argv: list[str]) -> int:
    """Exit status 0 when everything was answered, carried out and, where asked, found once at the broker."""
    chosen = _arguments(argv)
    began, clock = time.time(), time.monotonic()
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=chosen.agents, mp_context=spawn) as pool:
        tallies = list(pool.map(work, _shares(chosen)))
    report = _report(
        tallies,
        seconds=max(tally.ended for tally in tallies) - began,
        all_seconds=time.monotonic() - clock,
    )
    intents = {dfid: intent for tally in tallies for dfid, intent in tally.intents.items()}
    if chosen.intents:
        chosen.intents.write_text(json.dumps(intents))
    whole = not report["errors"] and report["outcomes"] == report["accepted"]
    if chosen.broker:
        rows = broker_count.effects(broker_url=chosen.broker)
        outcomes = {intent: status for tally in tallies for intent, status in tally.outcomes.items()}
        wanted = [intent for intent in intents.values() if outcomes.get(intent, "SUCCEEDED") == "SUCCEEDED"]
        count = broker_count.compare(intents=wanted, rows=rows, dfids=intents)
        report["broker"] = {
            "effects": count.effects,
            "missing": len(count.missing),
            "doubled": len(count.doubled),
            "foreign": len(count.foreign),
        }
        whole = whole and count.exact()
    print(json.dumps(report, indent=2))
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
