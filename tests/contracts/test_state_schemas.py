"""What names a version of the world: its number, or the id of the write that made it."""

import pytest

from runtime.contracts import state_schemas


@pytest.mark.parametrize("text", ["0", "17", "9" * 15, "01J9Z3K8Q4W7XG5T2M6B1C0DNE"])
def test_numbers_and_ids_of_writes_name_versions(text: str) -> None:
    assert state_schemas.names_world_version(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-1",
        "1.0",
        "9" * 16,
        "\N{ARABIC-INDIC DIGIT ONE}",
        "1\n",
        "latest",
        "81J9Z3K8Q4W7XG5T2M6B1C0DNE",  # larger than any ULID
        "01J9Z3K8Q4W7XG5T2M6B1C0DNI",  # I is no digit of a ULID
        "01j9z3k8q4w7xg5t2m6b1c0dne",
    ],
)
def test_other_texts_do_not(text: str) -> None:
    assert not state_schemas.names_world_version(text)
