"""Evidence as it was stored once is read by every later version, and written back byte for byte."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from audit import canonical
from escalations import evidence_contracts
from escalations.contracts import Family

FOLDER = Path(__file__).parent / "evidence"
FAMILIES = {"decision": Family.DECISION, "operational": Family.OPERATIONAL, "silence": Family.AGENT}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_it_is_written_back_as_it_was_stored(path: Path) -> None:
    body = path.read_bytes()
    shown = evidence_contracts.read_evidence(body)
    assert shown.family is FAMILIES[path.stem.split("-", 1)[0]]
    assert shown.to_bytes() == body


@pytest.mark.parametrize("name", ["decision-with-a-figure", "operational"])
def test_what_was_stored_before_figures_were_shown_is_written_back_without_them(name: str) -> None:
    stored = canonical.decode((FOLDER / f"{name}.json").read_bytes())
    del stored["figures"]
    body = canonical.encode(stored)
    assert evidence_contracts.read_evidence(body).to_bytes() == body


@pytest.mark.parametrize("body", [b"{}", b"no json", b"[null]", b'{"family":"AGENT"}', b'{"family":"OTHER"}'])
def test_what_is_no_evidence_is_refused(body: bytes) -> None:
    with pytest.raises(ValidationError):
        evidence_contracts.read_evidence(body)


def test_evidence_of_another_family_is_refused() -> None:
    stored = canonical.decode((FOLDER / "operational.json").read_bytes())
    with pytest.raises(ValidationError):
        evidence_contracts.read_evidence(canonical.encode({**stored, "operational": None}))
