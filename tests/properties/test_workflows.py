"""Generated workflows are walked at random: what the linter says of them holds in every run."""

from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.contracts.states import Decision
from runtime.contracts.workflow import Core, ReportedStep, WorkflowDocument
from runtime.kernel.gate.gate_input import Case
from runtime.kernel.workflows import linter, steps
from tests.properties.test_gate import cases, judged
from tests.support.workflow_story import document, walk

STRICTNESS = (Decision.ACCEPT, Decision.ESCALATE, Decision.REJECT)

NAMES = ("A", "B", "C", "D", "PROPOSE")
CORES = tuple(core.value for core in Core)
OUTPUTS: tuple[dict[str, Any], ...] = ({}, {"go": True}, {"go": False}, {"result": "FAIL"})
some_name = st.sampled_from(NAMES)
some_core = st.sampled_from(CORES)
some_router = st.fixed_dictionaries(
    {
        "router": st.just("value"),
        "on": some_name,
        "key": st.just("output.go"),
        "equals": st.booleans(),
        "to": some_name | st.just("INTERRUPT"),
    }
)


@st.composite
def some_workflow(draw: st.DrawFn) -> WorkflowDocument:
    """A workflow of five instructions with any edges, and up to two sequences and two routers."""
    routers: list[dict[str, Any]] = draw(st.lists(some_router, max_size=2))
    cores = st.tuples(some_core, some_core, some_core)
    sequences = draw(st.lists(cores, max_size=2))
    return document(
        start="A",
        instructions={name: {"core": draw(some_core)} for name in NAMES},
        edges=draw(st.lists(st.tuples(some_name, some_name), max_size=8)),
        routers=[{**router, "id": f"r{at}"} for at, router in enumerate(routers)],
        checkers=[
            {"id": f"s{at}", "checker": "sequence", "from": before, "between": between, "to": to}
            for at, (before, between, to) in enumerate(sequences)
        ],
    )


def _allowed(workflow: WorkflowDocument, fold: Any, name: str) -> bool:
    asked = steps.Asked(instruction=name, now_ms=0, input={}, left={})
    return not steps.check(workflow, fold, asked)


def _step(workflow: WorkflowDocument, name: str, output: dict[str, Any]) -> ReportedStep:
    return ReportedStep(instruction=name, core=workflow.instructions[name].core, output=output)


# 500 of them here; 10,000 with `--hypothesis-profile long`.
@settings(max_examples=5 * settings().max_examples, deadline=None)
@given(some_workflow(), st.integers(0, 2**32))
def test_what_the_linter_says_holds(workflow: WorkflowDocument, seed: int) -> None:
    found = linter.lint(workflow)
    unreachable = {finding.place[1] for finding in found if finding.code is linter.LintCode.UNREACHABLE}
    chance = Random(seed)
    fold = steps.begin(workflow)
    for _ in range(12):
        if steps.calls_person(fold):
            assert not any(_allowed(workflow, fold, name) for name in NAMES)
            fold = steps.resume(fold)
        open_to = [name for name in NAMES if _allowed(workflow, fold, name)]
        if not open_to:
            break
        name = chance.choice(open_to)
        assert name not in unreachable
        output = chance.choice(OUTPUTS)
        fold = steps.take(workflow, fold, _step(workflow, name, output), now_ms=0)
    for finding in found:
        if finding.code is linter.LintCode.FORBIDDEN_PATH:
            *walked, refused = finding.message.partition(" on the path ")[2].split(" > ")
            fold = steps.begin(workflow)
            for name in walked:
                fold = steps.take(workflow, fold, _step(workflow, name, {}), now_ms=0)
            assert not _allowed(workflow, fold, refused)


@settings(max_examples=150, deadline=None)
@given(cases, some_workflow(), st.lists(st.sampled_from(NAMES), max_size=6))
def test_a_workflow_only_ever_takes_away(asked: Case, workflow: WorkflowDocument, walked: list[str]) -> None:
    fold = walk(workflow, *walked)
    ruled = replace(
        asked,
        rules=asked.rules.model_copy(update={"workflow": workflow}),
        facts=asked.facts.model_copy(update={"workflow": fold}),
    )
    without, within = judged(asked).decision, judged(ruled).decision
    assert STRICTNESS.index(within) >= STRICTNESS.index(without)
