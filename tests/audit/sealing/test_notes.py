"""Signed checkpoints as text: what is written can be read, and nothing else can."""

import base64
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from audit.sealing import notes
from audit.signing import LocalSigner

SIGNER = LocalSigner(bytes(range(32)))
AT = datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=UTC)
PLAIN = notes.Checkpoint("dir-console/0123", 5, bytes(range(32)), AT)
NOTE = notes.sign(PLAIN, public_key=SIGNER.public_key, sign=SIGNER.sign)
checkpoints = st.builds(
    notes.Checkpoint,
    origin=st.from_regex(r"[a-z./-]{1,30}", fullmatch=True),
    size=st.integers(0, 10**18),
    root=st.binary(min_size=32, max_size=32),
    time=st.datetimes(min_value=datetime(2000, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    heads=st.none()
    | st.builds(notes.Heads, count=st.integers(0, 10**6), root=st.binary(min_size=32, max_size=32)),
)


@given(checkpoints)
def test_a_checkpoint_that_was_signed_can_be_read_and_verified(checkpoint: notes.Checkpoint) -> None:
    note = notes.sign(checkpoint, public_key=SIGNER.public_key, sign=SIGNER.sign)
    signed = notes.read(note)
    assert signed.checkpoint == checkpoint
    signature = signed.signature_by(SIGNER.public_key)
    assert signature is not None
    signer = Ed25519PublicKey.from_public_bytes(SIGNER.public_key)
    signer.verify(signature, note.partition("\n\n")[0].encode() + b"\n")


def test_the_text_is_the_one_that_tools_for_transparency_logs_read() -> None:
    text, _, signatures = NOTE.partition("\n\n")
    root = base64.b64encode(bytes(range(32))).decode()
    assert text.split("\n") == ["dir-console/0123", "5", root, "time 2026-01-02T03:04:05.678900Z"]
    dash, name, signature = signatures.rstrip("\n").split(" ")
    assert (dash, name) == ("—", "dir-console/0123")
    name, key_hash, key = notes.verifier_key("dir-console/0123", SIGNER.public_key).split("+", 2)
    assert base64.b64decode(signature)[:4].hex() == key_hash
    assert base64.b64decode(key) == b"\x01" + SIGNER.public_key


def test_a_signature_by_another_key_is_not_taken_for_its_own() -> None:
    signed = notes.read(NOTE)
    assert signed.signature_by(LocalSigner(bytes(32)).public_key) is None


def test_the_signature_of_a_witness_stands_beside_ours() -> None:
    line = f"— witness.example {base64.b64encode(bytes(76)).decode()}\n"
    signed = notes.read(NOTE + line)
    assert len(signed.signatures) == 2
    assert signed.signature_by(SIGNER.public_key) is not None


BROKEN = {
    "empty": "",
    "without an empty line": NOTE.replace("\n\n", "\n"),
    "too long": NOTE + "— a " + "A" * 10_000 + "\n",
    "an origin with a space": NOTE.replace("dir-console/", "dir console/"),
    "a size with a zero before it": NOTE.replace("\n5\n", "\n05\n"),
    "a size that is no number": NOTE.replace("\n5\n", "\nfive\n"),
    "a short root": NOTE.replace(base64.b64encode(bytes(range(32))).decode(), "AAAA"),
    "a root that is no base64": NOTE.replace(base64.b64encode(bytes(range(32))).decode(), "?"),
    "a root in other words": NOTE.replace("Hh8=\n", "Hh9=\n"),
    "without a time": NOTE.replace("time 2026-01-02T03:04:05.678900Z\n", ""),
    "another fourth line": NOTE.replace("time 2026", "when 2026"),
    "a time that is none": NOTE.replace("2026-01-02", "2026-13-02"),
    "an unknown line": NOTE.replace("Z\n\n", "Z\nmore\n\n"),
    "two lines too many": NOTE.replace("Z\n\n", f"Z\nheads 1 {base64.b64encode(bytes(32)).decode()}\nx\n\n"),
    "without a signature": NOTE.partition("\n\n")[0] + "\n\n",
    "cut off": NOTE[:-1],
    "another dash": NOTE.replace("—", "-"),
    "a signature that is no base64": NOTE[:-4] + "?==\n",
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_note_of_another_form_is_refused(what: str) -> None:
    assert BROKEN[what] != NOTE
    with pytest.raises(notes.NoteError):
        notes.read(BROKEN[what])
