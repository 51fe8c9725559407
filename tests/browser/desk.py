"""Works through a hundred mixed escalations in Chromium: `python -m tests.browser.desk` prints what it cost.

For each way (keyboard, mouse, phone) it starts a console of its own, posts the escalations by the agents'
API, decides them one after the other, and compares every signed decision with what was in sight before.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.browser import conftest, desk_cases, desk_hands, desk_work
from tests.browser.desk_work import Run


def main() -> None:
    """Read the options, work, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=100, help="escalations in each queue (default 100)")
    parser.add_argument("--by", default="keyboard,mouse,phone", help="ways to work, comma-separated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to a file")
    options = parser.parse_args()
    runs = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=conftest.CHROMIUM, args=list(conftest.QUIET))
        for by in options.by.split(","):
            runs.append(work(browser, by, count=options.count))
            sys.stdout.write(table(runs[-1]))
            sys.stdout.flush()
        browser.close()
    if options.json:
        options.json.write_text(json.dumps([desk_work.as_dict(run) for run in runs], indent=2) + "\n")


def work(browser: Browser, by: str, *, count: int) -> Run:
    """One queue on a new console, worked and checked; AssertionError for a decision that was not shown."""
    if by not in desk_hands.HANDS:
        raise SystemExit(f"unknown way {by}: choose from {', '.join(desk_hands.HANDS)}")
    jobs = desk_cases.mix(count)
    with tempfile.TemporaryDirectory() as folder, desk_cases.opened(Path(folder), jobs=jobs) as desk:
        run = desk_work.work(browser, desk, by, desk.cases)
        desk_work.check_shown(desk, run)
        if by == "keyboard":
            desk_work.check_limits(run)
        return run


def table(run: Run) -> str:
    """The figures of a run in Markdown."""
    presses = {"keyboard": "keys", "mouse": "clicks", "phone": "taps"}[run.by]
    head = [f"| by {run.by} | number |"]
    if run.by == "keyboard":
        head.append(" keys | with the reason | median s | refused |")
    else:
        head.append(f" {presses} | letters | scrolls | median s | refused |")
    lines = ["".join(head), "| --- |" + " --- |" * ("".join(head).count("|") - 2)]
    for line in desk_work.lines_of(run):
        figures = [f"{line.keys:g}", f"{line.keys + line.letters:g}"]
        if run.by != "keyboard":
            figures = [f"{line.moves:g}", f"{line.keys + line.letters:g}", f"{line.scrolls:g}"]
        cells = [line.name, str(line.number), *figures, f"{line.seconds:.2f}", str(line.refusals)]
        lines.append("| " + " | ".join(cells) + " |")
    refusals = sum(len(one.refusals) for one in run.taken)
    last = (
        f"\n{len(run.taken)} decisions in {run.seconds:.1f} s of machine time, {refusals} refusals; "
        "each page was in sight with its headline and its limit before the form was sent.\n\n"
    )
    return "\n".join(lines) + "\n" + last


if __name__ == "__main__":
    main()
