"""What one part of the console logged, whatever other threads of the process say meanwhile."""

from types import ModuleType

import pytest


def levels_of(caplog: pytest.LogCaptureFixture, module: ModuleType) -> list[str]:
    """The level of each line that this module logged, in order."""
    return [record.levelname for record in caplog.records if record.name == module.__name__]
