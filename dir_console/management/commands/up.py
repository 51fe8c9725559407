"""`manage.py up`: the whole console in one process, on SQLite, with its demo."""

import argparse
import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from audit import actors
from audit.access.roles import Role
from audit.verification import triggers
from demo.market import Schedule
from dir_console import command_line, demo_launcher, env, single_process
from runtime.contracts.problem import Problem
from runtime.epochs.services import boots, epochs
from runtime.maintenance.services import sweeper
from runtime.registry.services import users

OPERATOR = "operator"
LOOPBACK = {"127.0.0.1", "localhost", "::1"}
ANY_ADDRESS = {"0.0.0.0", "::"}  # noqa: S104  # named to say that they are not one host


class Command(BaseCommand):
    """Migrates, makes the first operator, starts the server, the drain and, where wanted, the demo."""

    help = "Start the console in one process: SQLite, no other service. Stop it with Ctrl-C."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
        parser.add_argument("--port", type=_port, default=8000, help="port to listen on (default 8000)")
        parser.add_argument("--data", metavar="DIR", help="data folder (default DIR_DATA, else ./var)")
        parser.add_argument(
            "--demo",
            action=argparse.BooleanOptionalAction,
            default=None,
            help="also run a paper broker and its agents (default for a new folder)",
        )
        parser.add_argument(
            "--market",
            choices=[schedule.value for schedule in Schedule],
            default=Schedule.CYCLE.value,
            help="when the demo's market is open: always, never, or with a close of 20 s every 5 minutes",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        for name in ("DATABASE_URL", "REDIS_URL"):
            if os.environ.get(name):
                raise CommandError(
                    f"{name} is set, so this looks like a production install, which `up` does not run: it "
                    "keeps its own SQLite file. Unset the variable, or start the parts of docker-compose.yml."
                )
        folder: Path = settings.DATA_DIR
        if options["data"] and Path(options["data"]).resolve() != folder:
            raise CommandError("--data is read before Django starts: run this as `manage.py up --data DIR`.")
        try:
            with single_process.folder_lock(folder), boots.ended():
                if open_to_others := env.list_readable_by_others(folder):
                    self._say(
                        f"Other users of this machine can read {open_to_others[0]}, and so sign in as "
                        f"anyone. Restrict access with: chmod -R go-rwx {folder}"
                    )
                self._run(folder, **options)
        except single_process.FolderBusyError as error:
            raise CommandError(
                f"Another console is running on {folder}. Stop it first, or choose a folder with --data."
            ) from error

    def _run(self, folder: Path, *, host: str, port: int, demo: bool | None, market: str, **_: Any) -> None:
        try:
            bound = single_process.listen(host, port)
        except single_process.PortTakenError as error:
            raise CommandError(
                f"Cannot listen on {host} port {port}: {error}. Choose another with --port."
            ) from error
        with bound:
            self._serve(folder, host=host, demo=demo, market=Schedule(market), bound=bound)
        self._say("The console has stopped.")

    def _serve(
        self, folder: Path, *, host: str, demo: bool | None, market: Schedule, bound: socket.socket
    ) -> None:
        call_command("migrate", interactive=False, verbosity=0)
        if absent := triggers.missing():
            raise CommandError(
                f"The ledger is not protected: the trigger {absent[0]} is missing. Nothing was started."
            )
        is_new = not get_user_model().objects.exists()
        wants_demo = demo if demo is not None else is_new or demo_launcher.is_remembered(folder)
        # Its agents would need keys, which nobody gets before an admin has ended the recovery.
        if epochs.compare_with_mark():
            self._say(
                f"{epochs.describe_missing()} So a backup was restored. Nothing is executed and no proposal "
                f"is accepted until an admin starts a new epoch: {command_line.manage()} leave_recovery"
            )
            wants_demo = False
        prepared = demo_launcher.prepare(folder, market=market) if wants_demo else None
        # Nobody else is alive to hold a claim: all leases end here, and later ones are this server's own.
        boots.begin()
        rescued = sweeper.expire_all_leases()
        if host not in LOOPBACK | ANY_ADDRESS and host not in settings.ALLOWED_HOSTS:
            settings.ALLOWED_HOSTS.append(host)
        name = "127.0.0.1" if host in ANY_ADDRESS else host
        port = bound.getsockname()[1]
        url = f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
        settings.DIR_PUBLIC_URL = settings.DIR_PUBLIC_URL or url
        if is_new:
            # Said at once: whatever goes wrong after this, the password must not be lost.
            self._say(f"Sign in as {OPERATOR} with the password {_add_operator()}")
            self._say(
                f"It is shown only once. Save it, or set another with `{command_line.manage()} set_password`."
            )
        stops: list[Callable[[], Any]] = []

        def on_ready() -> None:
            if prepared is not None:
                stops.append(prepared.start(base_url=url).stop)
            has_demo = prepared is not None
            self._greet(url, folder, host=host, is_new=is_new, rescued=rescued, has_demo=has_demo)

        single_process.serve(bound, on_ready=on_ready, on_stop=stops, log_level="warning")

    def _greet(
        self, url: str, folder: Path, *, host: str, is_new: bool, rescued: int, has_demo: bool
    ) -> None:
        self._say(f"DIR Console is running at {url}/")
        if host in ANY_ADDRESS:
            names = ", ".join(settings.ALLOWED_HOSTS)
            self._say(f"It accepts these host names only: {names}. Add others in DIR_ALLOWED_HOSTS.")
        self._say(f"Data folder: {folder}")
        if has_demo:
            self._say("The demo is running: a paper broker and its agents. Turn it off with --no-demo.")
        elif is_new:
            command = f"{command_line.manage()} load_pack FILE --activate"
            self._say(f"The console is empty: load a pack with `{command}`.")
        if rescued:
            self._say(
                f"{rescued} call(s) were interrupted by the last stop and wait in the queue for a decision."
            )
        self._say("Stop it with Ctrl-C.")

    def _say(self, words: str) -> None:
        # Django paints its stderr red; this is no error.
        self.stderr.write(words, style_func=str)
        self.stderr.flush()


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:  # noqa: PLR2004  # the last port
        raise argparse.ArgumentTypeError("a port is a number from 0 to 65535")
    return int(text)


def _add_operator() -> str:
    """The first person: operator and admin. One person alone decides in recorded solo mode."""
    password = secrets.token_urlsafe(12)
    added = users.add(
        tenant=settings.DIR_TENANT,
        name=OPERATOR,
        password=password,
        roles={Role.OPERATOR, Role.ADMIN},
        actor=actors.SYSTEM,
    )
    if isinstance(added, Problem):
        raise CommandError(added.detail)
    return password
