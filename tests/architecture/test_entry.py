"""`manage.py` knows the data folder before the settings are read."""

import pytest

import manage


@pytest.mark.parametrize(
    ("arguments", "folder"),
    [
        (["--data", "/srv/dir"], "/srv/dir"),
        (["--port", "8000", "--data=/srv/dir"], "/srv/dir"),
        (["--no-demo"], None),
        (["--data"], None),
    ],
)
def test_finds_the_data_folder(arguments: list[str], folder: str | None) -> None:
    assert manage.data_folder(arguments) == folder
