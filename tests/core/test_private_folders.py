"""Where the console keeps its data: nobody but its owner reads it."""

import stat
from pathlib import Path

import pytest

from dir_console import env


def mode_of(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


@pytest.mark.once
def test_folders_above_a_new_data_folder_are_private_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests have theirs in `var/check`; `var` is that of the console, which may be started later."""
    monkeypatch.setenv("DIR_DATA", str(tmp_path / "var" / "check"))
    tmp_path.chmod(0o755)
    folder = env.data_dir(tmp_path)
    assert (mode_of(folder), mode_of(folder.parent)) == (0o700, 0o700)
    # What somebody has made stays as it was.
    assert mode_of(tmp_path) == 0o755
    folder.chmod(0o750)
    assert mode_of(env.data_dir(tmp_path)) == 0o750
