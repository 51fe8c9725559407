"""The mixed escalations of the desk: a pack, agents that post by the API, and a target that fails."""

import json
import os
import random
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final
from unittest import mock

from demo.client import Client
from tests.browser import conftest
from tests.browser.conftest import Console
from tests.support import misbehaving_targets, wait_until

MANY: Final = 20  # from here on the silent agents wait long enough to be acknowledged in peace
LOW_CENTS, HIGH_CENTS, WIRE_CENTS = 150_000, 400_000, 320_000


@dataclass(frozen=True)
class Job:
    """One class of work: which agent proposes what, what the operator does, and how many of a hundred."""

    name: str
    kind: str
    action: str
    share: int
    cents: int = LOW_CENTS
    agent: str = "payer"


# The first eight are what a small run has one of each.
JOBS: Final = (
    Job("LOW, override", "PAY", "OVERRIDE", 31),
    Job("HIGH, override", "PAY", "OVERRIDE", 13, HIGH_CENTS),
    Job("HIGH, override, password", "PAY", "OVERRIDE", 3, HIGH_CENTS + 1100),
    Job("irreversible, override", "WIRE", "OVERRIDE", 6, WIRE_CENTS),
    Job("in doubt, resume", "BOOK_FREIGHT", "RESUME", 3, agent="shipper"),
    Job("failed repeatedly, resume", "ORDER_PAPER", "RESUME", 5, agent="shipper"),
    Job("silence, acknowledge", "", "ACKNOWLEDGE", 3, agent="quiet"),
    Job("LOW, abort", "PAY", "ABORT", 8),
    Job("LOW, modify", "PAY", "MODIFY", 5),
    Job("LOW of a group, override", "PAY", "OVERRIDE", 10, LOW_CENTS, "batch-payer"),
    Job("in doubt, mark done", "BOOK_FREIGHT", "MARK_DONE", 3, agent="shipper"),
    Job("in doubt, abort", "BOOK_FREIGHT", "ABORT", 2, agent="shipper"),
    Job("silence, stop", "", "STOP_AGENT", 1, agent="quiet"),
    Job("LOW, same reason again", "PAY", "OVERRIDE", 4),
    Job("LOW, faster than reading_s", "REFUND", "OVERRIDE", 3),
)

_KIND = """
  - kind: {kind}
    version: 1.0.0
    title: {title}
    risk_tier: T0
    params_schema:
      type: object
      properties:
        payee: {{type: string, title: Payee, maxLength: 80}}
        amount_cents: {{type: integer, title: Amount, minimum: 1, maximum: 100000000, x-unit: cents USD}}
      required: [payee, amount_cents]
      additionalProperties: false
    impact: "{impact}"
{limits}
    effect: "{effect}"
    steps: [{{id: send, executor: http, target: {target}, request: {{method: POST, path: /{target}}}}}]
    on_unknown: person
    sla_s: 14400
    reading_s: {reading_s}
    reversible: {reversible}
"""
_LIMIT = "    limits: [{id: max_amount, value: params.amount_cents, limit: manifest.limits.max_cents}]"
_BY_AMOUNT = "params.amount_cents > 250000 ? 'HIGH_IMPACT' : 'LOW_IMPACT'"
_PAID, _LOW = "Pay {amount_cents|cents} USD to {payee}", "'LOW_IMPACT'"
_KINDS = (
    ("PAY", "Pay an invoice", _BY_AMOUNT, _LIMIT, _PAID, "bank", 0, "true"),
    (
        "REFUND",
        "Pay a refund",
        _LOW,
        _LIMIT,
        "Refund {amount_cents|cents} USD to {payee}",
        "bank",
        60,
        "true",
    ),
    ("WIRE", "Wire money", "'HIGH_IMPACT'", _LIMIT, _PAID, "bank", 0, "false"),
    ("BOOK_FREIGHT", "Book freight", _LOW, "", "Book freight to {payee}", "freight", 0, "true"),
    ("ORDER_PAPER", "Order paper", _LOW, "", "Order paper for {payee}", "paper", 0, "true"),
)
_AGENT = """
  - agent_id: {name}
    role: {role}
    owner: accounts
    mission: Work for the desk.
    manifest:
      version: 1.0.0
      policy_kinds: [{kinds}]
      limits: {{max_cents: 100000}}
      escalations_per_hour: 3600
      {more}
"""


def pack(base_url: str, *, quiet: int, silent_s: int) -> str:
    """Five kinds, three targets behind one address, and `quiet` agents that fall silent."""
    names = ("kind", "title", "impact", "limits", "effect", "target", "reading_s", "reversible")
    kinds = "".join(_KIND.format(**dict(zip(names, row, strict=True))) for row in _KINDS)
    known = ", ".join(row[0] for row in _KINDS)
    agents = "".join(
        _AGENT.format(name=name, role="EXECUTOR", kinds=known, more="") for name in proposing_agents()
    )
    agents += "".join(
        _AGENT.format(
            name=f"quiet-{number}",
            role="MONITOR",
            kinds="",
            more=f"silent_after_s: {silent_s}\n      hours: {{zone: UTC}}",
        )
        for number in range(quiet)
    )
    targets = "".join(
        f'\n  {name}: {{base_url: "{base_url}", refuses: [503]}}' for name in ("bank", "freight", "paper")
    )
    return f"pack: desk\nversion: 1.0.0\ntargets:{targets}\npolicy_kinds:{kinds}\nagents:{agents}"


def proposing_agents() -> list[str]:
    """The agents that propose, each once."""
    return list(dict.fromkeys(job.agent for job in JOBS if job.kind))


def mix(count: int, *, seed: int = 11) -> list[Job]:
    """`count` jobs in the shares of JOBS, each class at least once where there is room, in a mixed order."""
    if count < len(JOBS):
        return list(JOBS[:count])
    numbers = [max(1, job.share * count // 100) for job in JOBS]
    numbers[0] += count - sum(numbers)
    found = [job for job, number in zip(JOBS, numbers, strict=True) for _ in range(number)]
    random.Random(seed).shuffle(found)
    # Those of a group arrive one after the other, as from a batch.
    group = [job for job in found if job.agent == "batch-payer"]
    rest = [job for job in found if job.agent != "batch-payer"]
    middle = len(rest) // 2
    return rest[:middle] + group + rest[middle:]


@dataclass(frozen=True)
class Case:
    """One open escalation, as it is stored, and the job that it is."""

    escalation_id: str
    job: Job
    agent_id: str
    effect: str


@dataclass
class Target:
    """One HTTP server for all three targets: it drops and refuses until it `works`."""

    works: bool = False
    calls: int = 0

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.calls += 1
        if not self.works and request.path == "/freight":
            misbehaving_targets.drop(request)
        elif not self.works and request.path == "/paper":
            misbehaving_targets.answer(503)(request)
        else:
            receipt = {"receipt": f"r-{self.calls}"}
            misbehaving_targets.answer(200, json.dumps(receipt).encode())(request)


@dataclass
class Desk:
    """A console with its open cases; `quiet` are the clients of the agents that fell silent."""

    console: Console
    process: subprocess.Popen[str]
    target: Target
    cases: list[Case]
    silent_s: int
    quiet: dict[str, Client] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)
    _talking: list[threading.Thread] = field(default_factory=list)

    def talk_again(self, agent_id: str) -> None:
        """After an acknowledgement the agent calls again, and does not fall silent a second time."""

        def keep_talking() -> None:
            while not self._over.wait(self.silent_s / 5):
                self.quiet[agent_id].events()

        thread = threading.Thread(target=keep_talking, daemon=True)
        self._talking.append(thread)
        thread.start()

    def end(self) -> None:
        """Let the agents that talk end."""
        self._over.set()
        for thread in self._talking:
            thread.join(timeout=10)
        for client in self.quiet.values():
            client.wire.close()


@contextmanager
def console_with(folder: Path, text: str) -> Iterator[tuple[Console, subprocess.Popen[str]]]:
    """A console without its demo, on a new folder, with a pack active, and its process."""
    allowed = {"DIR_EGRESS_ALLOW": "127.0.0.1", "DIR_CIRCUIT_FAILURES": "1000"}
    with mock.patch.dict(os.environ, allowed):
        process, lines = conftest.started(folder, "--no-demo")
    try:
        url, password = conftest.greeting(process, lines)
        console = Console(url=url, user="operator", password=password, folder=folder)
        file = folder / "pack.yaml"
        file.write_text(text)
        console.command("load_pack", str(file), "--activate")
        yield console, process
    finally:
        conftest.stop(process)


@contextmanager
def opened(folder: Path, *, jobs: list[Job]) -> Iterator[Desk]:
    """A console without its demo, on a new folder, with one open escalation for each job."""
    target, wait_s = Target(), 40 if len(jobs) >= MANY else 3
    with ExitStack() as stack:
        running = stack.enter_context(misbehaving_targets.stand_in(target.answer))
        quiet = sum(job.agent == "quiet" for job in jobs)
        text = pack(running.base_url, quiet=quiet, silent_s=wait_s)
        console, process = stack.enter_context(console_with(folder, text))
        desk = Desk(console=console, process=process, target=target, cases=[], silent_s=wait_s)
        stack.callback(desk.end)
        desk.cases = _post(desk, jobs)
        target.works = True
        yield desk


def _post(desk: Desk, jobs: list[Job]) -> list[Case]:
    """Propose all of them as agents do, wait until a person is asked for each, and tell which is which."""
    console = desk.console
    silent = [job for job in jobs if job.agent == "quiet"]
    names = [*proposing_agents(), *(f"quiet-{number}" for number in range(len(silent)))]
    clients = clients_of(console, names)
    desk.quiet = {name: clients[name] for name in names if name.startswith("quiet-")}
    by_flow: dict[str, Job] = {}
    for number, job in enumerate(jobs):
        if not job.kind:
            continue
        agent = clients[job.agent]
        dfid = agent.open_flow(trigger="an invoice is due")
        agent.propose(dfid, _proposal(agent.context(dfid).ref, job, number))
        by_flow[dfid] = job
    for name, client in clients.items():
        if name in desk.quiet:
            client.events()  # its only call: from now on it is silent
        else:
            client.wire.close()
    rows = wait_until.until(
        lambda: found if len(found := read(console, OPEN)) >= len(jobs) else None,
        timeout_s=180,
        interval_s=2,
    )
    assert rows is not None
    cases = []
    for row in rows:
        job = by_flow.get(row["flow"]) or silent[int(row["agent"].rsplit("-", 1)[1])]
        cases.append(Case(row["id"], job, row["agent"], row["effect"]))
    return cases


def clients_of(console: Console, names: list[str]) -> dict[str, Client]:
    """A client for each of these agents, each with a new key."""
    keys = read(console, KEYS.format(names=names))
    return {name: Client(base_url=console.url, agent_id=name, key=keys[name]) for name in names}


def _proposal(context_ref: str, job: Job, number: int) -> dict[str, Any]:
    alike = job.agent == "batch-payer"
    return {
        "policy_kind": job.kind,
        "params": {
            "payee": "Paper Mill" if alike else f"Supplier {number}",
            "amount_cents": job.cents + (number if alike else 100 * number),
        },
        "execution_constraints": {"validity_window_sec": 7200},
        "context_ref": context_ref,
        "confidence": 0.95,
        "explain": "The invoice is due this week.",
    }


def read(console: Console, code: str) -> Any:
    """What a few lines of Python in the product's own shell print as JSON."""
    return json.loads(console.command("shell", "-c", code).splitlines()[-1])


KEYS: Final = """
import json
from runtime.registry.services import credentials
issue = lambda name: credentials.issue_agent_key(tenant="default", agent_id=name, actor="system").text
print(json.dumps({{name: issue(name) for name in {names}}}))
"""
OPEN: Final = """
import json
from escalations.models import Escalation
rows = Escalation.objects.filter(state="OPEN").order_by("opened_at")
print(json.dumps([
    {"id": str(row.pk), "flow": str(row.flow_id), "agent": row.agent_id, "effect": row.effect} for row in rows
]))
"""
