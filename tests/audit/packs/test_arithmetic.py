"""The verifier's own arithmetic, against what others have published and written."""

import json
import math
import time
import zipfile
from io import BytesIO
from typing import Any

import pytest
import rfc8785
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import example, given
from hypothesis import strategies as st

from audit.packs import verify
from audit.packs.verify import Malformed
from tests.support import evidence_packs

pytestmark = pytest.mark.once

# Secret key, public key, message and signature of the tests of RFC 8032, section 7.1 (1, 2, 3, SHA(abc)).
RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
        "d25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
        "387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
        "4a7c15e9716ed28dc027beceea1ec40a",
    ),
    (
        "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
        "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
        "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
        "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e030"
        "3dca179c138ac17ad9bef1177331a704",
    ),
]
ORDER = 2**252 + 27742317777372353535851937790883648493
PRIME = 2**255 - 19
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw()
SIGNATURE = KEY.sign(b"words")
# The points of order 1, 2, 4 and 8, in their canonical form: nobody needs a secret to sign under them.
SMALL = [
    (1).to_bytes(32, "little"),
    (PRIME - 1).to_bytes(32, "little"),
    bytes(32),
    bytes(31) + b"\x80",
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85"),
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa"),
]


def is_valid_elsewhere(message: bytes, signature: bytes, public_key: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


@pytest.mark.parametrize(("secret", "public_key", "message", "signature"), RFC_8032)
def test_takes_the_signatures_of_the_rfc(secret: str, public_key: str, message: str, signature: str) -> None:
    words = bytes.fromhex(message), bytes.fromhex(signature), bytes.fromhex(public_key)
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(secret))
    assert (key.sign(words[0]), key.public_key().public_bytes_raw()) == words[1:]
    assert verify.is_signed(*words)
    assert not verify.is_signed(words[0] + b"x", *words[1:])


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=200), st.integers(0, 64 * 8 - 1))
def test_takes_what_another_library_signs_and_nothing_one_bit_away(
    seed: bytes, message: bytes, bit: int
) -> None:
    key = Ed25519PrivateKey.from_private_bytes(seed)
    public_key, signature = key.public_key().public_bytes_raw(), key.sign(message)
    assert verify.is_signed(message, signature, public_key)
    flipped = (int.from_bytes(signature, "little") ^ 1 << bit).to_bytes(64, "little")
    assert not verify.is_signed(message, flipped, public_key)


def _with_scalar(added: int) -> bytes:
    scalar = int.from_bytes(SIGNATURE[32:], "little") + added
    return SIGNATURE[:32] + scalar.to_bytes(32, "little")


@pytest.mark.parametrize(
    "signature",
    [
        _with_scalar(ORDER),
        _with_scalar(8 * ORDER),
        SIGNATURE[:32] + ORDER.to_bytes(32, "little"),
        SIGNATURE[:32] + b"\xff" * 32,
        SIGNATURE[:63],
        SIGNATURE + b"\x00",
        SIGNATURE[:32],
        b"",
        bytes(64),
        SIGNATURE[32:] + SIGNATURE[:32],
        # R with the other sign of x, and forms of y that are not below the prime.
        SIGNATURE[:31] + bytes([SIGNATURE[31] ^ 0x80]) + SIGNATURE[32:],
        (PRIME + 1).to_bytes(32, "little") + bytes(32),
    ],
)
def test_refuses_a_signature_that_is_not_the_one(signature: bytes) -> None:
    assert verify.is_signed(b"words", SIGNATURE, PUBLIC)
    assert not verify.is_signed(b"words", signature, PUBLIC)
    assert not is_valid_elsewhere(b"words", signature, PUBLIC)


@pytest.mark.parametrize("public_key", SMALL)
def test_refuses_a_key_of_small_order(public_key: bytes) -> None:
    """Of these, R = A and S = 0 fits every message, or one in eight, where nobody looks."""
    point = verify.read_point(public_key)
    assert point is not None
    assert verify.is_small(point)
    taken = [
        number
        for number in range(64)
        if is_valid_elsewhere(b"%d" % number, public_key + bytes(32), public_key)
    ]
    assert taken
    assert not any(verify.is_signed(b"%d" % number, public_key + bytes(32), public_key) for number in taken)


@pytest.mark.parametrize(
    "public_key",
    [(PRIME + number).to_bytes(32, "little") for number in range(19)]
    + [
        b"\xff" * 32,
        (1 | 1 << 255).to_bytes(32, "little"),  # x is 0, and yet odd
        (PRIME - 1 | 1 << 255).to_bytes(32, "little"),
        (2).to_bytes(32, "little"),  # on no point of the curve
        PUBLIC[:31],
        PUBLIC + b"\x00",
        b"",
    ],
)
def test_refuses_a_key_that_is_no_canonical_point(public_key: bytes) -> None:
    assert verify.read_point(public_key) is None
    assert not verify.is_signed(b"words", SIGNATURE, public_key)


def test_checks_twenty_signatures_in_two_seconds() -> None:
    began = time.process_time()
    for number in range(20):
        message = b"message %d" % number
        assert verify.is_signed(message, KEY.sign(message), PUBLIC)
    assert time.process_time() - began < 2


# --- Canonical JSON ---

SAFE = 2**53 - 1
texts = st.text(st.characters(exclude_categories=["Cs"]))
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-SAFE, SAFE)
    | texts
    | st.floats(allow_nan=False, allow_infinity=False)
)
documents = st.recursive(scalars, lambda held: st.lists(held) | st.dictionaries(texts, held), max_leaves=30)


@given(documents)
@example({"\U0001f600": 1, "\ufb01": 2, "\u20ac": 3, "\r": 4, "1": 5})
@example({"\x7f\x00 \u2028": '\x7f\x1f\u2028"\\/\b\f\n\r\t'})
@example(
    [
        2.0**60,
        -(2.0**60),
        1e20,
        1e21,
        123456789012345680.0,
        1e-6,
        1e-7,
        1.5e-9,
        -0.0,
        5e-324,
        1.7976931348623157e308,
    ]
)
def test_writes_json_as_rfc_8785_does_and_reads_it_back(document: Any) -> None:
    encoded = verify.canonical(document)
    assert encoded == rfc8785.dumps(document)
    assert verify.canonical(verify.read_json(encoded)) == encoded


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_writes_numbers_as_ecmascript_does(number: float) -> None:
    text = verify.number_text(number)
    assert text.encode() == rfc8785.dumps(number)
    assert float(text) == number


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, 2**53, -(2**53), "\ud800", {"\udfff": 1}, {1: 2}, b"", object()]
)
def test_has_no_form_for_what_is_not_json(value: Any) -> None:
    with pytest.raises(Malformed):
        verify.canonical(value)


@pytest.mark.parametrize(
    "encoded",
    [
        b'{"b":1,"a":2}',
        b'{"a":1,"a":1}',
        b'{"a": 1}',
        b"1.0",
        b"-0",
        b"1e400",
        b"9" * 5000,
        b"9007199254740993",
        b"NaN",
        b"Infinity",
        b'"\\u0041"',
        b'"\\ud83d"',
        b"\xff",
        b"\xef\xbb\xbf1",
        b"",
        b"1 ",
        b"[" * 100_000 + b"]" * 100_000,
        b"[" * 200 + b"]" * 200,
    ],
)
def test_reads_only_canonical_json(encoded: bytes) -> None:
    with pytest.raises(Malformed):
        verify.read_json(encoded)


# --- The tree ---

LEAVES = [bytes([number]) * 3 for number in range(21)]


@pytest.mark.parametrize("size", range(1, 22))
def test_every_leaf_is_included_where_it_is_and_nowhere_else(size: int) -> None:
    leaves = LEAVES[:size]
    root = evidence_packs.root(leaves)
    for index, leaf in enumerate(leaves):
        proof = evidence_packs.inclusion(leaves, index)
        assert [
            number for number in range(-1, size + 2) if verify.is_included(leaf, number, size, proof, root)
        ] == [index]
        assert not verify.is_included(b"other", index, size, proof, root)
        assert not verify.is_included(leaf, index, size, [*proof, root], root)
        assert not any(
            verify.is_included(leaf, index, size, proof[:cut] + proof[cut + 1 :], root)
            for cut in range(len(proof))
        )


@pytest.mark.parametrize("larger", range(22))
def test_every_smaller_tree_is_continued_by_the_larger(larger: int) -> None:
    roots = [evidence_packs.root(LEAVES[:size]) for size in range(22)]
    for smaller in range(larger + 1):
        proof = [] if smaller == 0 else evidence_packs.consistency(LEAVES[:larger], smaller)

        def is_continued(
            proof: list[bytes], old: bytes, new: bytes, *, sizes: tuple[int, int] = (smaller, larger)
        ) -> bool:
            return verify.is_continued(
                smaller=sizes[0], larger=sizes[1], smaller_root=old, larger_root=new, proof=proof
            )

        assert is_continued(proof, roots[smaller], roots[larger])
        assert not is_continued([*proof, bytes(32)], roots[smaller], roots[larger])
        assert not is_continued(proof, bytes(32), roots[larger])
        assert smaller == 0 or not is_continued(proof, roots[smaller], bytes(32))
        assert not any(
            is_continued(proof[:cut] + proof[cut + 1 :], roots[smaller], roots[larger])
            for cut in range(len(proof))
        )
        assert smaller == larger or not is_continued(
            proof, roots[larger], roots[smaller], sizes=(larger, smaller)
        )


# --- The archive ---

names = st.from_regex(r"[A-Za-z0-9_-]{1,8}(/[A-Za-z0-9_.-]{0,4}[a-z]){0,2}", fullmatch=True)


@given(st.dictionaries(names, st.binary(max_size=300), max_size=8))
def test_packs_as_pythons_own_writer_does_and_reads_it_back(members: dict[str, bytes]) -> None:
    packed = verify.pack_bytes(members)
    assert packed == evidence_packs.archive_of(members)
    assert verify.read_archive(packed) == (members, [])
    with zipfile.ZipFile(BytesIO(packed)) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == members


@pytest.mark.parametrize(
    "name", ["", "/a", "a/", "../a", "a/../b", ".", "a//b", "a\\b", "\u00e4", "a b", "a\n", "a/."]
)
def test_packs_no_name_that_leads_elsewhere(name: str) -> None:
    with pytest.raises(ValueError, match="cannot hold"):
        verify.pack_bytes({name: b""})


def test_packs_no_more_members_than_a_plain_archive_can_count() -> None:
    with pytest.raises(ValueError, match="too large"):
        verify.pack_bytes({f"m{number}": b"" for number in range(0xFFFF)})


def test_reads_a_note_that_others_have_signed_too() -> None:
    leaves = [b"one"]
    note = evidence_packs.note(evidence_packs.NEXT, leaves, evidence_packs.moment(1))
    witness = "\u2014 witness.example/w " + evidence_packs.text64(b"1234" + bytes(72)) + "\n"
    read = verify.read_note(note + witness.encode())
    assert read.signed_by(evidence_packs.NEXT.public_key) is True
    assert read.signed_by(evidence_packs.FIRST.public_key) is None
    assert (read.size, read.root, read.heads) == (1, evidence_packs.root(leaves), None)


def test_what_is_shown_moves_no_terminal() -> None:
    words = verify.shown("\x1b[2J\u202e" + "x" * 200)
    assert json.loads(json.dumps(words)).isascii()
    assert "\x1b" not in words
    assert len(words) < 120
