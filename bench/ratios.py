"""The ratios of a run, by name: kept in `ratios.json`, shown in docs/performance.md, compared by `--gate`.

A ratio is a cost beside something of the same run, or a number of Python calls: less is better, and what the
machine is called or does meanwhile changes little.
"""

import json
from collections.abc import Mapping
from typing import Final

from bench.environment import ROOT

KEPT: Final = ROOT / "bench" / "ratios.json"
REPORT: Final = ROOT / "docs" / "performance.md"
BEGINS, ENDS = "<!-- kept ratios: make bench ARGS=--keep -->", "<!-- end of the kept ratios -->"
# More than this part above the kept ratio is a loss.
MOST_LOSS: Final = 0.15


def kept() -> dict[str, float]:
    """The ratios that are committed; none where there is no file yet."""
    return dict(json.loads(KEPT.read_text())) if KEPT.exists() else {}


def keep(measured: Mapping[str, float]) -> None:
    """Put what was measured in place of what was kept under the same names, also in the report."""
    values = {**kept(), **{name: float(f"{value:.4g}") for name, value in measured.items()}}
    KEPT.write_text(json.dumps(dict(sorted(values.items())), indent=1) + "\n")
    before, _, rest = REPORT.read_text().partition(BEGINS)
    REPORT.write_text(f"{before}{BEGINS}\n{table(values)}{ENDS}{rest.partition(ENDS)[2]}")


def table(values: Mapping[str, float]) -> str:
    """The ratios as Markdown."""
    rows = (f"| {name} | {value:,g} |\n" for name, value in sorted(values.items()))
    return f"| what | ratio |\n|---|---|\n{''.join(rows)}"


def losses(measured: Mapping[str, float], before: Mapping[str, float]) -> list[str]:
    """A sentence for each ratio that has become worse by more than MOST_LOSS."""
    return [
        f"{name}: {value:.4g}, {_above(value, before[name])} the {before[name]:.4g} that are kept"
        for name, value in sorted(measured.items())
        if name in before and value > before[name] * (1 + MOST_LOSS)
    ]


def _above(value: float, kept_value: float) -> str:
    # Of what must be nothing, such as entries that no checkpoint covers, no part can be said.
    return f"{value / kept_value - 1:.0%} above" if kept_value else "in place of"
