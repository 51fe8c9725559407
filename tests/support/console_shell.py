"""A shell of the console that stays open: code is sent to it, and what the code calls `answer` comes back.

Starting Django takes longer than most questions that a test has.
"""

import json
import subprocess
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class ConsoleShell:
    """One process, started by the first question."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = dict(env)
        self._process: subprocess.Popen[str] | None = None

    def ask(self, code: str) -> Any:
        """Run `code`, which sets `answer` to something that JSON can hold.

        Raises:
            RuntimeError: the code failed; its traceback.
        """
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(code) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the shell ended with {process.wait(timeout=60)}")
        said = json.loads(line)
        if "failed" in said:
            raise RuntimeError(said["failed"])
        return said["answer"]

    def close(self) -> None:
        """End the process, if it was started."""
        if self._process is not None:
            self._process.communicate(timeout=60)
            self._process = None

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.console_shell"],
                cwd=ROOT,
                env=self._env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        return self._process


def main() -> None:
    """Answer one line after the other, until there is none."""
    import django

    django.setup()
    from django.db import connection, connections

    answers, sys.stdout = sys.stdout, sys.stderr  # what the code prints is no answer
    for line in sys.stdin:
        names: dict[str, Any] = {}
        try:
            exec(json.loads(line), names)  # noqa: S102  # the test's own code
            said = {"answer": names["answer"]}
        except Exception:
            said = {"failed": traceback.format_exc()}
        # The next question may come after the database dropped every connection.
        connections.close_all()
        close_pool = getattr(connection, "close_pool", None)  # PostgreSQL only
        if close_pool is not None:
            close_pool()
        print(json.dumps(said), file=answers, flush=True)


if __name__ == "__main__":
    main()
