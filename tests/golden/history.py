"""A golden history: what was judged, under which rules, and what came out, as exact bytes in a JSON file."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from audit import canonical
from runtime.kernel.gate import pipeline
from runtime.kernel.gate.gate_input import Case
from tests.support import gate_cases

FOLDER = Path(__file__).parent / "histories"


@dataclass(frozen=True)
class History:
    """Canonical JSON as text, so that the file holds the very bytes."""

    judgement: str
    rules: str
    verdict: str

    def again(self) -> str:
        """The verdict of today's gate on the same bytes."""
        return pipeline.judge_bytes(self.judgement.encode(), self.rules.encode()).decode()


def of(case: Case) -> History:
    """The history of a case, judged now."""
    judgement, rules = gate_cases.judgement(case)
    verdict = pipeline.judge_bytes(judgement, rules)
    return History(judgement=judgement.decode(), rules=rules.decode(), verdict=verdict.decode())


def path(name: str) -> Path:
    """Where a history is kept."""
    return FOLDER / f"{name}.json"


def read(name: str) -> History:
    """A history as it was recorded."""
    return History(**json.loads(path(name).read_text(encoding="utf-8")))


def write(name: str, history: History) -> None:
    """Keep a history; one that is there already is not touched.

    Raises:
        FileExistsError: when the name is taken.
    """
    with path(name).open("x", encoding="utf-8") as file:
        file.write(json.dumps(asdict(history), indent=1, ensure_ascii=True) + "\n")


def recorded() -> list[str]:
    """The names of all histories."""
    return sorted(file.stem for file in FOLDER.glob("*.json"))


def holds(stored: Any, again: Any) -> bool:
    """Whether all of `stored` is in `again`, which may have more: fields are only ever appended."""
    if isinstance(stored, dict) and isinstance(again, dict):
        return all(name in again and holds(value, again[name]) for name, value in stored.items())
    if isinstance(stored, list) and isinstance(again, list):
        return len(stored) == len(again) and all(map(holds, stored, again))
    return canonical.encode(stored) == canonical.encode(again)
