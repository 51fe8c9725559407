"""A burst of proposals in its own processes, running while the test breaks something."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.processes import ROOT, clean_environment, python

PROPOSALS = int(os.environ.get("DIR_FAULTS_PROPOSALS", "60"))
AGENTS = int(os.environ.get("DIR_FAULTS_AGENTS", "4"))
# A bigger burst, asked for by the variable, gets longer in proportion.
PATIENCE = max(1.0, PROPOSALS / 60)


@dataclass
class Burst:
    """A running burst; ``finish`` waits for its report."""

    _process: subprocess.Popen[str]
    _intents: Path

    def finish(self, *, timeout_s: float = 150 * PATIENCE) -> "Done":
        """Wait for the end and read what came of it."""
        out, err = self._process.communicate(timeout=timeout_s)
        assert out.startswith("{"), f"the burst broke down:\n{err}"
        return Done(report=json.loads(out), intents=json.loads(self._intents.read_text()))

    def running(self) -> bool:
        """Whether it is still sending or waiting."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End it; safe after its end."""
        if self.running():
            self._process.kill()
        self._process.communicate(timeout=60)


@dataclass(frozen=True)
class Done:
    """The report of the burst, and the accepted intents by DFID."""

    report: Mapping[str, Any]
    intents: Mapping[str, str]


def start(*, base_url: str, keys: Path, folder: Path, proposals: int = PROPOSALS, wait_s: float = 1) -> Burst:
    """Send ``proposals`` by ``AGENTS`` agent processes; outcomes are waited for ``wait_s`` seconds only."""
    intents = folder / f"intents-{os.urandom(4).hex()}.json"
    argv = python("-m", "tests.load", "--base", base_url, "--keys", str(keys), "--kind", "PLACE_ORDER")
    argv += ["--agents", str(AGENTS), "--proposals", str(proposals), "--wait", str(wait_s)]
    argv += ["--patience", "40", "--intents", str(intents)]
    process = subprocess.Popen(
        argv, cwd=ROOT, env=clean_environment({}), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    return Burst(process, intents)
