"""What the files of the product import: read from their source, since what is not imported cannot be used."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from django.conf import settings

PRODUCT: Final = ("audit", "dir_console", "escalations", "runtime")
ADAPTERS: Final = "runtime.execution.adapters"
# Modules by which a program reaches another machine, or starts another program.
OUTSIDE: Final = frozenset(
    {
        "aiohttp",
        "apprise",
        "celery",
        "channels.layers",
        "ctypes",
        "django.core.mail",
        "ftplib",
        "http.client",
        "http.server",
        "httpcore2",
        "httpx2",
        "imaplib",
        "kombu",
        "multiprocessing",
        "nntplib",
        "poplib",
        "psycopg",
        "redis",
        "requests",
        "smtplib",
        "socketserver",
        "ssl",
        "subprocess",
        "telnetlib",
        "urllib.request",
        "urllib3",
        "uvicorn",
        "websockets",
        "xmlrpc",
    }
)
# Of this module everything leads outside but the name of this host, so each use of it is read.
SOCKET: Final = "socket"
_HARMLESS: Final = frozenset({"socket", "socket.gethostname"})
# The same by a function of a module that is harmless otherwise.
CALLS: Final = frozenset(
    {
        "asyncio.create_subprocess_exec",
        "asyncio.create_subprocess_shell",
        "asyncio.open_connection",
        "asyncio.open_unix_connection",
        "os.execv",
        "os.execve",
        "os.execvp",
        "os.fork",
        "os.popen",
        "os.posix_spawn",
        "os.spawnv",
        "os.system",
    }
)
# Where the secrets of targets are.
ENVIRONMENT: Final = frozenset({"os.environ", "os.getenv"})
_TOPICS = (
    frozenset({"redis"}),
    "takes proposals from topics of this installation's own broker and answers there: it calls no target",
)
# Who else may import one of them, and for what. Everything that leads to a target is in ADAPTERS.
ALLOWED: Final[Mapping[str, tuple[frozenset[str], str]]] = {
    "audit.live.hint_relay": (
        frozenset({"channels.layers"}),
        "tells other processes of this installation that a stream has grown: its name and a number",
    ),
    "dir_console.celery": (frozenset({"celery", "kombu"}), "connects to this installation's own broker"),
    "dir_console.conformance.trial": (
        frozenset({"socket"}),
        "listens on the loopback address for this check, in a child process",
    ),
    "audit.verification.shared_walk": (
        frozenset({"multiprocessing"}),
        "verifies the ledger in processes of its own, which are forked and only read",
    ),
    "dir_console.conformance.trial_run": (frozenset({"subprocess"}), "starts that child process"),
    "dir_console.connections": (frozenset({"uvicorn"}), "is the server that others connect to"),
    "dir_console.demo_control": (
        frozenset({"http.client"}),
        "asks the demo on the loopback address, only where `manage.py up` runs the demo",
    ),
    "dir_console.health": (frozenset({"redis"}), "asks this installation's own broker whether it is there"),
    "dir_console.management.commands.up": (frozenset({"socket"}), "listens for browsers and agents"),
    "dir_console.single_process": (frozenset({"socket", "uvicorn"}), "listens for browsers and agents"),
    "dir_console.mcp_server": (
        frozenset({"httpx2"}),
        "calls the agent API inside this process, over no connection",
    ),
    **dict.fromkeys(
        (
            "dir_console.management.commands.topic_intake",
            "dir_console.management.commands.topic_user",
            "dir_console.topics.access",
            "dir_console.topics.broker",
            "dir_console.topics.intake",
            "dir_console.topics.notices",
        ),
        _TOPICS,
    ),
    "runtime.workers.celery_tasks": (frozenset({"celery"}), "takes work from this installation's own broker"),
}


@dataclass(frozen=True, slots=True)
class Import:
    """A module that a file imports, or a name of CALLS, of ENVIRONMENT or of SOCKET that it uses."""

    by: str
    line: int
    module: str


def list_imports() -> Sequence[Import]:
    """Every import in the product's files, also inside functions."""
    return [found for path in _files() for found in _of_file(path)]


def list_ways_out(found: Sequence[Import]) -> list[Import]:
    """Those that lead outside, and are neither in the adapters of the execution service nor in ALLOWED."""
    return [
        each
        for each in found
        if (outside := _outside(each.module)) and not _is_adapter(each.by)
        if outside not in ALLOWED.get(each.by, (frozenset(), ""))[0]
    ]


def list_intruders(found: Sequence[Import]) -> list[Import]:
    """Those that reach into the adapters from outside `runtime.execution`."""
    return [
        each
        for each in found
        if _is_within(each.module, ADAPTERS) and not _is_within(each.by, "runtime.execution")
    ]


def list_importers(found: Sequence[Import], module: str) -> list[str]:
    """The modules that import `module`."""
    return sorted({each.by for each in found if _is_within(each.module, module)})


def _outside(module: str) -> str:
    if module in CALLS or module in _HARMLESS:
        return "" if module in _HARMLESS else module
    if _is_within(module, SOCKET):
        return SOCKET
    return next((known for known in OUTSIDE if _is_within(module, known)), "")


def _is_adapter(module: str) -> bool:
    return _is_within(module, ADAPTERS)


def _is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def _files() -> Iterator[Path]:
    for app in PRODUCT:
        for path in sorted((Path(settings.BASE_DIR) / app).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path


def _of_file(path: Path) -> Iterator[Import]:
    parts = path.relative_to(settings.BASE_DIR).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
        if isinstance(node, ast.Import):
            # Under another name its uses would not be recognised.
            yield from (
                Import(name, node.lineno, f"{one.name}.*" if one.asname and one.name == SOCKET else one.name)
                for one in node.names
            )
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from a import b` may name a module `a.b`, or a function of `a`.
            yield from (Import(name, node.lineno, f"{node.module}.{one.name}") for one in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            called = f"{node.value.id}.{node.attr}"
            if called in CALLS | ENVIRONMENT or node.value.id == SOCKET:
                yield Import(name, node.lineno, called)
