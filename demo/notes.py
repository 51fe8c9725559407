"""What an agent waits for, in a file of its own, so that it still answers after a restart."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Notes:
    """One file per agent, readable by its owner only; without a folder nothing is kept."""

    folder: Path | None
    agent_id: str

    def load(self) -> dict[str, Any]:
        """What was kept last; empty where nothing was, or where the file cannot be read."""
        if self.folder is None:
            return {}
        try:
            kept = json.loads(self._file(self.folder).read_text())
        except (OSError, ValueError):
            return {}
        return kept if isinstance(kept, dict) else {}

    def keep(self, waiting: Mapping[str, Any]) -> None:
        """Put this in place of what was kept before, all of it or nothing."""
        if self.folder is None:
            return
        draft = self._file(self.folder).with_suffix(".draft")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(dict(waiting), file)
        draft.replace(self._file(self.folder))

    def _file(self, folder: Path) -> Path:
        return folder / f"waiting-{self.agent_id}.json"
