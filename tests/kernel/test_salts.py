"""Salts of bodies that are hashed: one in, one out, and none where there was none."""

import pytest

from audit import canonical
from runtime.kernel import salts
from runtime.kernel.gate import pipeline
from runtime.kernel.gate.gate_input import PolicyBundle
from tests.support import gate_cases

SALT = "5a" * 16


def test_what_follows_from_a_proposal_has_a_salt_of_its_own() -> None:
    found = {salts.derive(SALT, of=name) for name in ("verdict", "requests", "evidence")}
    assert len(found) == 3
    assert SALT not in found
    assert {len(salt or "") for salt in found} == {salts.DIGITS}
    assert salts.derive(None, of="verdict") is None


def test_a_salt_changes_the_digest_of_a_verdict_and_nothing_else() -> None:
    rules = PolicyBundle(manifest=gate_cases.manifest(), kind=gate_cases.kind())
    plain, salted = (
        pipeline.judge(gate_cases.proposal(salt=salt), gate_cases.facts(), rules, gate_cases.NOW_MS)
        for salt in (None, SALT)
    )
    assert salted.salt == salts.derive(SALT, of="verdict")
    assert salted.model_copy(update={"salt": None}) == plain
    assert b"salt" not in plain.to_bytes()


@pytest.mark.parametrize(
    ("body", "salt"),
    [
        ({"salt": SALT}, SALT),
        ({"nonce": SALT}, SALT),
        ({"proposal": {"salt": SALT}}, SALT),
        ({"proposal": {"params": {"salt": SALT}}}, None),
        ({"proposal": SALT, "salt": "short"}, None),
        ([SALT], None),
    ],
)
def test_the_salt_of_stored_bytes(body: object, salt: str | None) -> None:
    assert salts.find(canonical.encode(body)) == salt


def test_bytes_that_are_no_json_have_no_salt() -> None:
    assert salts.find(b"\xff") is None
