"""What a request of the queue and of a decision costs: CPU of the server, statements, and Python calls.

CPU is read from the process table around a row of requests, one after the other. No time is measured, so
other load on the machine changes little. Each figure stands beside that of the bare view in the same round.
"""

import html
import http.client
import itertools
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import urlencode, urlsplit

from audit.live.topics import Topic
from bench import environment, escalating, process_cpu, signed_in, statements
from bench.environment import Server, Stand
from bench.escalating import DECIDED, HIGH_CENTS, LOW_CENTS, Desk
from bench.page_parts import Region, read_regions
from bench.statements import Counts

OPEN = (30, 200)
QUEUE = "/escalations/"
# Ten overrides in a row bring the pause, so people take turns.
MOST_OVERRIDES = 8
# Requests in a row for one figure. A decision needs an escalation each, and the bare view is quick.
GETS, POSTS, BARES = 25, 12, 200
BARE = "bare view"
FRAGMENT = {"HX-Request": "true"}
# Addresses with the headers that go with them.
Parts = list[tuple[str, dict[str, str]]]
_HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)"')
_TYPED_AGAIN = re.compile(r"Type <code>([^<]+)</code> to confirm")


@dataclass(frozen=True)
class Cost:
    """CPU milliseconds per request: of the server's processes, and of the database's backends."""

    server_ms: float
    database_ms: float


@dataclass
class Found:
    """Figures of every round by what was asked for, and what was counted of one request."""

    rounds: dict[str, list[Cost]] = field(default_factory=dict)
    counts: dict[str, Counts] = field(default_factory=dict)

    def add(self, what: str, cost: Cost) -> None:
        """Keep the figure of one more round."""
        self.rounds.setdefault(what, []).append(cost)


def run(stand: Stand, rounds: int) -> dict[str, float]:
    """Measure on one database, with few and with many open escalations, and print a table for each."""
    ratios: dict[str, float] = {}
    escalating.load(stand)
    with ExitStack() as stack:
        server = stack.enter_context(environment.serving(stand, "dir_console.asgi:application"))
        desk = Desk(stand, server.base_url)
        desk.accept_one()
        overrides = len(OPEN) * (rounds + 1) * 2 * POSTS
        counting, *keys = signed_in.sessions(stand, 2 + overrides // MOST_OVERRIDES, role="operator")
        bare = stack.enter_context(environment.serving(stand, "bench.bare_asgi:application"))
        people = itertools.cycle([Browser(server.base_url, key) for key in keys])
        lowest, highest = _one_of_each(desk)
        present = 2
        for wanted in OPEN:
            desk.open(wanted - present)
            present = wanted
            bench = PageBench(stand, server, bare, desk, people, counting)
            addresses = bench.addresses(lowest, highest)
            bench.count(addresses)
            bench.round(addresses)  # the first requests compile templates and rules
            bench.found.rounds.clear()
            for _ in range(rounds):
                bench.round(addresses)
            ratios |= _print(stand.name, wanted, bench.found)
    return ratios


def _one_of_each(desk: Desk) -> tuple[str, str]:
    return desk.ready(cents=LOW_CENTS).send(), desk.ready(cents=HIGH_CENTS).send()


class Browser:
    """A signed-in person with one kept connection; a refusal raises."""

    def __init__(self, base_url: str, session_key: str = "") -> None:
        parts = urlsplit(base_url)
        self._base_url, self._token = base_url, ""
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        self._cookies = {"sessionid": session_key} if session_key else {}

    def get(self, path: str, headers: dict[str, str] | None = None) -> str:
        """A page or fragment."""
        return self._send("GET", path, None, headers or {}, 200)

    def post(self, path: str, fields: dict[str, str], *, status: int = 302) -> None:
        """Send a form, and read only the answer itself."""
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": self._base_url}
        self._send("POST", path, urlencode(fields), headers, status)

    def _send(self, method: str, path: str, body: str | None, headers: dict[str, str], status: int) -> str:
        cookies = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        # uvicorn ends a connection that was quiet for five seconds; http.client opens it again after this.
        try:
            self._connection.request(method, path, body, {**headers, "Cookie": cookies})
            answer = self._connection.getresponse()
        except (ConnectionError, http.client.BadStatusLine):
            self._connection.close()
            self._connection.request(method, path, body, {**headers, "Cookie": cookies})
            answer = self._connection.getresponse()
        text = answer.read().decode()
        for line in answer.headers.get_all("Set-Cookie") or ():
            name, _, rest = line.partition("=")
            self._cookies[name] = rest.partition(";")[0]
        if answer.status != status:
            why = " ".join(re.sub(r"<[^>]*>", " ", text.partition("<main")[2]).split())
            raise RuntimeError(f"{method} {path} answered {answer.status}: {why[:300]}")
        return text


@dataclass
class PageBench:
    """Everything that one table needs."""

    stand: Stand
    server: Server
    bare: Server
    desk: Desk
    people: Iterator[Browser]
    session_key: str
    found: Found = field(default_factory=Found)

    def addresses(self, low: str, high: str) -> dict[str, Parts]:
        """What is read, each with its addresses and headers; a new row makes a page ask for the fragments."""
        page = next(self.people).get(QUEUE)
        regions = [region for region in read_regions(page) if region.wants(Topic.ESCALATIONS)]
        return {
            "queue, page": [(QUEUE, {})],
            "queue, after a hint": [_fragment(region) for region in regions],
            "decision page, low impact": [(f"{QUEUE}{low}/", {})],
            "decision page, high impact": [(f"{QUEUE}{high}/", {})],
        }

    def count(self, addresses: dict[str, Parts]) -> None:
        """Count statements and Python calls in a process beside the server, on the same database."""
        forms = {
            "override, low impact": self._forms(LOW_CENTS, 3),
            "override, high impact": self._forms(HIGH_CENTS, 3),
        }
        posts = {what: [(path, fields) for _, path, fields in form] for what, form in forms.items()}
        self.found.counts = statements.count(self.stand, self.session_key, gets=addresses, posts=posts)

    def round(self, addresses: dict[str, Parts]) -> None:
        """Measure everything once."""
        reader = next(self.people)
        for what, parts in addresses.items():
            self._measure(what, self.server, GETS, partial(_read, reader, parts * GETS))
        for what, cents in (("override, low impact", LOW_CENTS), ("override, high impact", HIGH_CENTS)):
            self._measure(what, self.server, POSTS, partial(_post, self._forms(cents, POSTS)))
        stranger = Browser(self.bare.base_url)
        self._measure(BARE, self.bare, BARES, partial(_insert, stranger))

    def _forms(self, cents: int, count: int) -> list[tuple[Browser, str, dict[str, str]]]:
        """New escalations, each with the form of its page as a person would send it."""
        made = []
        for _ in range(count):
            row = self.desk.ready(cents=cents, agent_id=DECIDED).send()
            person = next(self.people)
            page = html.unescape(person.get(f"{QUEUE}{row}/").partition("data-decision")[2])
            hidden, again = dict(_HIDDEN.findall(page)), _TYPED_AGAIN.search(page)
            typed = {"action": "OVERRIDE", "justification": f"Agreed with the desk, note {row}"}
            if again is not None:
                typed["typed_again"] = again[1]
            made.append((person, f"{QUEUE}{row}/decision/", hidden | typed))
        return made

    def _measure(self, what: str, server: Server, count: int, work: Callable[[], object]) -> None:
        name = self.stand.environ.get("DATABASE_URL", "").rpartition("/")[2]
        began_ms = process_cpu.of_tree(server.pid)
        database_ms = process_cpu.of_database(name) if name else 0.0
        work()
        used_ms = process_cpu.of_tree(server.pid) - began_ms
        database_ms = process_cpu.of_database(name) - database_ms if name else 0.0
        self.found.add(what, Cost(used_ms / count, database_ms / count))


def _fragment(region: Region) -> tuple[str, dict[str, str]]:
    return region.address(), FRAGMENT


def _read(reader: Browser, parts: Parts) -> None:
    for path, headers in parts:
        reader.get(path, headers)


def _post(forms: Sequence[tuple[Browser, str, dict[str, str]]]) -> None:
    for person, path, fields in forms:
        person.post(path, fields)


def _insert(stranger: Browser) -> None:
    for _ in range(BARES):
        stranger.post("/bare", {}, status=200)


def _print(name: str, present: int, found: Found) -> dict[str, float]:
    floor, ratios = [cost.server_ms for cost in found.rounds[BARE]], {}
    for what, costs in found.rounds.items():
        server_ms = statistics.median(cost.server_ms for cost in costs)
        database_ms = statistics.median(cost.database_ms for cost in costs)
        ratio = statistics.median(cost.server_ms / bare for cost, bare in zip(costs, floor, strict=True))
        counts = found.counts.get(what)
        # Printed only: rows of the queue are drawn once a second, so that its calls differ from run to run.
        counted = f"{counts.statements:>8}{counts.calls:>10,}" if counts else ""
        print(
            f"{name:<12}{present:>5} {what:<30}{server_ms:>10.1f}{ratio:>8.1f}{database_ms:>10.1f}{counted}"
        )
        if counts:
            ratios[f"{name}, {present} open: CPU of {what} / of the bare view"] = ratio
    return ratios
