"""What a server process has done before its first request."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOAD = """
import gc, json
import dir_console.asgi
print(json.dumps([gc.isenabled(), gc.get_freeze_count(), len(gc.get_objects())]))
"""


@pytest.mark.once
def test_the_collector_leaves_alone_what_is_loaded(tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if name not in {"DATABASE_URL", "REDIS_URL"}}
    done = subprocess.run(
        [sys.executable, "-c", LOAD],
        cwd=ROOT, env={**environ, "DIR_DATA": str(tmp_path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    is_enabled, frozen, looked_at = json.loads(done.stdout)
    assert is_enabled
    assert frozen > 100 * looked_at
