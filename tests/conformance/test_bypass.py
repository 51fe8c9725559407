"""No bypass path: the child process for real, and each part answers no when it is not so."""

import io
import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from dir_console.conformance import bypass, imports, trial, trial_run
from dir_console.conformance.imports import Import
from dir_console.conformance.items import Answer
from dir_console.conformance.sample import Sample
from tests.support import conformance_items, finished_history, worlds
from tests.support.conformance_items import TRIAL, answer_for_the_child, ask
from tests.support.finished_history import History

PARTS = ("bypass-egress", "bypass-judge", "bypass-system")
history = worlds.opened(finished_history.opened)


@pytest.fixture
def free(history: History, django_db_blocker: Any) -> Any:
    """The history, and the child process as it is."""
    with django_db_blocker.unblock():
        yield history


def test_the_child_calls_nobody_whom_it_must_not(free: History) -> None:
    sample = Sample(tenant="default")
    found = {name: conformance_items.get(name).run(sample) for name in PARTS}
    assert [found[name].answer for name in PARTS] == [Answer.YES, Answer.YES, Answer.PARTLY], found
    assert "0 connections for 8 refused calls" in found["bypass-egress"].seen
    assert "0 attempts to open a socket" in found["bypass-judge"].seen
    egress = sample.trial()["egress"]
    # The history's own target is on 127.0.0.1, which is allowed while it is.
    assert egress["host"] == "127.0.0.2"
    assert {each["result"] for each in egress["tries"]} == {"EGRESS_REFUSED"}
    assert {each["way"] for each in egress["tries"]} == {"call", "question"}


def test_an_address_that_is_allowed_after_all_is_a_no(free: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_run, "pick_host", lambda: "127.0.0.1")
    monkeypatch.setattr(trial_run, "spellings_of", lambda host: [host])
    found = ask("bypass-egress")
    assert found.answer is Answer.NO
    assert "A call to 127.0.0.1 came to" in found.why
    assert "with 1 connection" in found.why


def test_a_verdict_that_another_process_gives_otherwise_is_a_no(
    free: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = trial_run.pick_verdict(Sample(tenant="default").verdicts)
    assert chosen is not None
    chosen.body = bytes(chosen.body) + b" "
    monkeypatch.setattr(trial_run, "pick_verdict", lambda _: chosen)
    found = ask("bypass-judge")
    assert found.answer is Answer.NO
    assert "not, byte for byte" in found.why


ANSWERS: dict[str, tuple[str, dict[str, Any], str]] = {
    "a refused call that arrived": (
        "bypass-egress",
        {"tries": [{"address": "127.1", "way": "question", "result": "EGRESS_REFUSED", "arrived": 2}]},
        "A question to 127.1 came to EGRESS_REFUSED, with 2 connections.",
    ),
    "a call that was made": (
        "bypass-egress",
        {"tries": [{"address": "127.1", "way": "call", "result": "200", "arrived": 0}]},
        "A call to 127.1 came to 200",
    ),
    "a listener that hears nothing": (
        "bypass-egress",
        {"allowed": {"result": "CONNECT_FAILED", "arrived": 0}},
        "Even when it is allowed, the call does not arrive (CONNECT_FAILED).",
    ),
}


@pytest.mark.django_db
@pytest.mark.parametrize("name", ANSWERS)
def test_what_the_child_saw_decides(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_id, changes, why = ANSWERS[name]
    answer_for_the_child(monkeypatch, egress={**TRIAL["egress"], **changes})
    found = ask(check_id)
    assert found.answer is Answer.NO
    assert why in found.why


@pytest.mark.django_db
def test_something_that_leaves_while_it_is_judged_is_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_for_the_child(monkeypatch, judge={"is_equal": True, "events": ["socket.connect"]})
    assert "While it was judged: socket.connect." in ask("bypass-judge").why


@pytest.mark.django_db
def test_nothing_to_judge_is_not_applicable(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_for_the_child(monkeypatch, judge=None)
    assert ask("bypass-judge").answer is Answer.NOT_APPLICABLE


@pytest.mark.django_db
def test_a_network_policy_around_the_server_is_a_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_for_the_child(monkeypatch, egress={**TRIAL["egress"], "past": 0})
    assert ask("bypass-system").answer is Answer.YES
    assert ask("dare-2").answer is Answer.YES


# The source


@pytest.mark.django_db
def test_only_the_execution_service_and_what_is_named_lead_outside() -> None:
    found = ask("bypass-imports")
    assert (found.answer, found.why) == (Answer.YES, "")
    assert "dir_console.demo_control asks the demo" in found.seen


SOURCE = [
    ("runtime.flows.services.flows", "httpx2.Client", "imports httpx2.Client"),
    ("escalations.services.deciding", "socket.create_connection", "imports socket.create_connection"),
    ("runtime.workers.embedded", "socket.socket", "imports socket.socket"),
    ("runtime.workers.embedded", "socket.*", "imports socket.*"),
    ("audit.presenters", "subprocess.run", "imports subprocess.run"),
    ("audit.presenters", "os.system", "imports os.system"),
    # What one part may import for its purpose, no other may, nor that part anything else.
    ("runtime.workers.embedded", "http.client.HTTPConnection", "imports http.client.HTTPConnection"),
    ("dir_console.views", "runtime.execution.adapters.transport", "reaches into"),
]


@pytest.mark.once
@pytest.mark.django_db
@pytest.mark.parametrize(("by", "module", "why"), SOURCE)
def test_another_way_out_is_a_no(monkeypatch: pytest.MonkeyPatch, by: str, module: str, why: str) -> None:
    found = [*imports.list_imports(), Import(by, 7, module)]
    monkeypatch.setattr(imports, "list_imports", lambda: found)
    answer = ask("bypass-imports")
    assert answer.answer is Answer.NO
    assert f"{by}, line 7, {why}" in answer.why


def test_what_is_named_is_there_and_needs_what_it_may_import() -> None:
    """A line of ALLOWED that nothing uses any longer would let something else through."""
    found = imports.list_imports()
    for by, (modules, _) in imports.ALLOWED.items():
        used = {imports._outside(each.module) for each in found if each.by == by}
        assert modules <= used, by


def test_every_use_of_sockets_is_read(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "runtime").mkdir()
    written = "import socket\nimport socket as s\nfrom socket import create_connection\n"
    written += "a = socket.gethostname()\nb = socket.socket()\n"
    (tmp_path / "runtime" / "extra.py").write_text(written)
    settings.BASE_DIR = tmp_path
    ways = imports.list_ways_out(imports.list_imports())
    assert sorted((each.line, each.module) for each in ways) == [
        (2, "socket.*"),
        (3, "socket.create_connection"),
        (5, "socket.socket"),
    ]


def test_imports_inside_functions_are_read() -> None:
    of_trial = {each.module for each in imports.list_imports() if each.by == "dir_console.conformance.trial"}
    assert "runtime.kernel.gate.pipeline" in of_trial
    assert "runtime.execution.services.calling" in of_trial


# The child process


def test_spellings_of_an_address_lead_to_the_same_place() -> None:
    assert trial_run.spellings_of("127.0.0.1") == [
        "127.0.0.1",
        "2130706433",
        "0x7f000001",
        "[::ffff:127.0.0.1]",
    ]


def test_the_first_address_that_is_not_allowed_is_tried(settings: Settings) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1", "127.0.0.2", "127.0.0.3:9000"]
    assert trial_run.pick_host() == "127.0.0.3"
    settings.DIR_EGRESS_ALLOW = [f"127.0.0.{last}" for last in range(1, 10)]
    with pytest.raises(trial_run.TrialError, match="every loopback address"):
        trial_run.pick_host()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("child", "why"),
    [
        ("tests.support.no_such_module", "the child process failed: "),
        ("this", "gave no answer"),
    ],
)
def test_a_child_without_an_answer_is_a_no(monkeypatch: pytest.MonkeyPatch, child: str, why: str) -> None:
    monkeypatch.setattr(trial_run, "_CHILD", child)
    found = ask("bypass-egress")
    assert found.answer is Answer.NO
    assert why in found.why


@pytest.mark.django_db
def test_a_child_that_does_not_end_is_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_run, "TIMEOUT_S", 0.01)
    assert "did not end within" in ask("bypass-egress").why


@pytest.mark.django_db
def test_a_child_that_failed_is_started_once(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def fail(**_: Any) -> Any:
        started.append(1)
        raise trial_run.TrialError("no")

    monkeypatch.setattr(trial_run, "run", fail)
    sample = Sample(tenant="default")
    for check in bypass.CHECKS:
        if check.id in PARTS:
            with pytest.raises(trial_run.TrialError):
                check.run(sample)
    assert started == [1]


def test_the_listener_counts_and_answers(request: pytest.FixtureRequest) -> None:
    listener = trial.Listener("127.0.0.1")
    request.addfinalizer(listener.close)
    with (
        listener.answering() as received,
        socket.create_connection(("127.0.0.1", listener.port)) as used,
    ):
        used.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert used.recv(100).startswith(b"HTTP/1.1 200")
    assert received == [b"GET / HTTP/1.1\r\n\r\n"]
    with socket.create_connection(("127.0.0.1", listener.port)):
        assert listener.count() == 1
    assert listener.count() == 0


def test_judging_with_every_socket_refused_says_what_was_tried(free: History) -> None:
    watch = trial.Watch()
    chosen = trial_run.pick_verdict(Sample(tenant="default").verdicts)
    assert chosen is not None
    stored = {"judgement": chosen.input, "rules": chosen.bundle.body, "verdict": chosen.body}
    told = {name: bytes(held).hex() for name, held in stored.items()}
    watch("socket.connect", ())
    assert trial.try_judging(watch, **told) == {"is_equal": True, "events": []}
    watch("open", ())
    watch("subprocess.Popen", ())
    assert watch.events == ["subprocess.Popen"]


def test_sockets_are_refused_meanwhile_and_given_back(free: History, monkeypatch: pytest.MonkeyPatch) -> None:
    before = socket.socket

    def call_somebody(*_: Any) -> Any:
        socket.socket()

    monkeypatch.setattr("runtime.kernel.gate.pipeline.judge_bytes", call_somebody)
    with pytest.raises(RuntimeError, match="nothing may leave"):
        trial.try_judging(trial.Watch(), judgement="", rules="", verdict="")
    assert socket.socket is before


def test_the_child_in_this_process(
    free: History, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DIR_EGRESS_ALLOW = []
    request = {"host": "127.0.0.1", "spellings": ["127.0.0.1"], "judge": None}
    answers = io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(request)))
    monkeypatch.setattr(sys, "stdout", answers)
    monkeypatch.setattr(sys, "addaudithook", lambda _: None)
    trial.main()
    egress = json.loads(answers.getvalue())["egress"]
    assert [(each["way"], each["result"], each["arrived"]) for each in egress["tries"]] == [
        ("call", "EGRESS_REFUSED", 0),
        ("question", "EGRESS_REFUSED", 0),
    ]
    assert (egress["allowed"], egress["past"]) == ({"result": "200", "arrived": 1}, 1)


def test_a_call_that_gets_as_far_as_its_gate_says_so(
    free: History, settings: Settings, request: pytest.FixtureRequest
) -> None:
    """It would ask the database whether it may go on, which is not what is tried."""
    listener = trial.Listener("127.0.0.1")
    request.addfinalizer(listener.close)
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    assert trial._call(f"http://127.0.0.1:{listener.port}") == "DoesNotExist"
    assert listener.count() == 1
