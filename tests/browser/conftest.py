"""A running console with its demo, and a Chromium that reaches nothing else."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import Error as PlaywrightError

from demo import agents
from demo.client import Client, GivenVerdict
from tests.support import databases, wait_until

ROOT = Path(__file__).parents[2]
# The shell is Chromium without windows: the same pages in half the time.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((found for name in NAMES if (found := shutil.which(name))), "")
SEND_MS = 30_000
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            if not CHROMIUM and not os.environ.get("CI"):
                item.add_marker(pytest.mark.skip(reason="no Chromium: install one to see the pages"))


SEEN = """() => ({
  url: location.href,
  problem: document.getElementById("problem")?.innerText,
  connection: document.documentElement.dataset.connection,
  focus: document.activeElement?.outerHTML.slice(0, 200),
  submit: document.querySelector("[data-submit]")?.outerHTML,
})"""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the pages showed to the report of a failed test: a page often says what is wrong."""
    report = yield
    if call.when == "call" and report.failed:
        for page in _open_pages(getattr(item, "funcargs", {}).values()):
            with contextlib.suppress(PlaywrightError):
                report.sections.append(("page", json.dumps(page.evaluate(SEEN), indent=1)))
    return report


def _open_pages(values: Iterable[object]) -> list[Page]:
    """The open pages of a test's fixtures, and those that it opened in the browser itself."""
    found = [value for value in values if isinstance(value, Page)]
    contexts = [context for value in values if isinstance(value, Browser) for context in value.contexts]
    found += [page for context in contexts for page in context.pages]
    return [page for page in dict.fromkeys(found) if not page.is_closed()]


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    return {"executable_path": CHROMIUM, "args": list(QUIET)}


@dataclass(frozen=True)
class Console:
    """A console of its own: address, first operator, and the data folder."""

    url: str
    user: str
    password: str
    folder: Path

    def command(self, *words: str, given: str | None = None) -> str:
        """The standard output of one of the product's commands, which is `given` its input."""
        environment = {**os.environ, "DIR_DATA": str(self.folder)}
        ran = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=ROOT,
            env=environment,
            input=given,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return ran.stdout.strip()

    def sign_in(self, page: Page) -> None:
        """Sign the first operator in, as a person does."""
        page.goto(f"{self.url}/accounts/login/")
        page.fill("[name=login]", self.user)
        page.fill("[name=password]", self.password)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{self.url}/")

    def view_timeline_after(self, page: Page) -> None:
        """Choose, as on the decision page, to go to the timeline after a decision."""
        page.context.add_cookies([{"name": "dir_after_decision", "value": "timeline", "url": self.url}])

    def agent(self, agent_id: str, *, manifest_version: str = agents.MANIFEST_VERSION) -> Client:
        """A client with a new key of the agent, by default one of the demo."""
        key = self.command("issue_key", agent_id)
        return Client(base_url=self.url, agent_id=agent_id, key=key, manifest_version=manifest_version)


def send(page: Page) -> None:
    """Send the decision or review by its keys, as soon as the page lets it be sent.

    A page that has not heard from its server for some seconds holds its buttons, and a key is not held.
    """
    expect(page.locator("[data-submit], [data-review] [type=submit]").first).to_be_enabled(timeout=SEND_MS)
    page.keyboard.press("Control+Enter")


def started(folder: Path, *options: str) -> tuple[subprocess.Popen[str], list[str]]:
    """`manage.py up` in a folder of its own, and the lines it says, as they come.

    The demo's market stays open: a close between an escalation and its decision would change the evidence.
    """
    unwanted = {"DATABASE_URL", "REDIS_URL"}
    environment = {name: value for name, value in os.environ.items() if name not in unwanted}
    process = subprocess.Popen(
        [
            sys.executable,
            "manage.py",
            "up",
            "--port",
            "0",
            "--data",
            str(folder),
            "--market",
            "open",
            *options,
        ],
        cwd=ROOT,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    lines: list[str] = []
    assert process.stderr is not None
    threading.Thread(target=lines.extend, args=(iter(process.stderr.readline, ""),), daemon=True).start()
    return process, lines


def stop(process: subprocess.Popen[str]) -> None:
    """End the server as Ctrl-C would, and wait for it."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=60)
    if process.stderr is not None:
        process.stderr.close()


def greeting(process: subprocess.Popen[str], lines: list[str]) -> tuple[str, str]:
    """Address and password as the first start prints them, in whichever order."""

    def said() -> tuple[str, str] | None:
        if process.poll() is not None:
            raise AssertionError("the console ended: " + "".join(lines))
        text = "".join(lines)
        url, password = re.search(r"running at (\S+)/\n", text), re.search(r"with the password (\S+)", text)
        return (url[1], password[1]) if url and password else None

    found = wait_until.until(said, timeout_s=60)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory: pytest.TempPathFactory, migrated_file: Path) -> Path:
    """A data folder for a console of this file's own, with a migrated database: to make one takes long."""
    folder = tmp_path_factory.mktemp("own") / "data"
    databases.put(migrated_file, folder)
    return folder


@pytest.fixture(scope="session")
def console(tmp_path_factory: pytest.TempPathFactory, migrated_file: Path) -> Iterator[Console]:
    """The console with its demo, for all browser tests of a worker."""
    folder = tmp_path_factory.mktemp("console") / "data"
    databases.put(migrated_file, folder)
    process, lines = started(folder, "--demo")
    try:
        url, password = greeting(process, lines)
        yield Console(url=url, user="operator", password=password, folder=folder)
    finally:
        stop(process)


EXPLAIN = "Strong momentum; the desk would agree."


def escalate(agent: Client, *, symbol: str, cents: int, explain: str = EXPLAIN) -> GivenVerdict:
    """An order worth about `cents` at the live price, above the agent's limit: a person is asked."""
    dfid = agent.open_flow(trigger="browser test")
    context = agent.context(dfid)
    price = int(context.fact(f"price.{symbol}"))
    quantity = max(1, cents // price)
    verdict = agent.propose(
        dfid,
        {
            "policy_kind": "ADJUST_POSITION",
            "params": {
                "symbol": symbol,
                "action": "BUY",
                "quantity": quantity,
                "notional_cents": quantity * price,
            },
            "execution_constraints": {"validity_window_sec": 600, "max_slippage_bps": 1000},
            "context_ref": context.ref,
            "confidence": 0.95,
            "explain": explain,
        },
    )
    assert verdict.escalation_id is not None, verdict
    return verdict


@pytest.fixture(scope="session")
def agent(console: Console) -> Iterator[Client]:
    """The agent that asks for too much, in the test's own hands."""
    client = console.agent("ambitious-trader")
    yield client
    client.wire.close()


@pytest.fixture(scope="module")
def full_bucket(console: Console) -> None:
    """The agent may escalate thirty times again, as if an admin had refilled its bucket."""
    console.command("shell", "-c", REFILL)


@pytest.fixture
def reason() -> str:
    """A reason that nobody has given before: the same one again would cost an answer."""
    return f"Agreed with the desk, note {uuid4().hex[:8]}"


REFILL = """
from runtime.resources.services import budgets
budgets.refill(tenant="default", agent_id="ambitious-trader", actor="system", reason="browser tests")
"""


@pytest.fixture
def page_of_operator(console: Console, page: Page) -> Page:
    """A signed-in page."""
    console.sign_in(page)
    return page


@pytest.fixture(scope="session")
def base_url(console: Console) -> str:
    return console.url
