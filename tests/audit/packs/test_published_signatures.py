"""The verifier's Ed25519 against the longest vector of RFC 8032, and against what forgers try."""

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from audit.packs import verify
from tests.audit.packs.test_arithmetic import KEY, ORDER, PRIME, PUBLIC, SMALL, is_valid_elsewhere

pytestmark = pytest.mark.once

# RFC 8032, section 7.1, test 1024: its message has 1023 bytes.
SECRET = bytes.fromhex("f5e5767cf153319517630f226876b86c8160cc583bc013744c6bf255f5cc0ee5")
PUBLIC_1024 = bytes.fromhex("278117fc144c72340f67d0f2316e8386ceffbf2b2428c9c51fef7c597f1d426e")
SIGNATURE_1024 = bytes.fromhex(
    "0aab4c900501b3e24d7cdf4663326a3a87df5e4843b2cbdb67cbf6e460fec350"
    "aa5371b1508f9f4528ecea23c436d94b5e8fcd4f681e30a6ac00a9704a188a03"
)
MESSAGE_1024 = bytes.fromhex(
    "08b8b2b733424243760fe426a4b54908632110a66c2f6591eabd3345e3e4eb98fa6e264bf09efe12ee50f8f54e9f77b1"
    "e355f6c50544e23fb1433ddf73be84d879de7c0046dc4996d9e773f4bc9efe5738829adb26c81b37c93a1b270b20329d"
    "658675fc6ea534e0810a4432826bf58c941efb65d57a338bbd2e26640f89ffbc1a858efcb8550ee3a5e1998bd177e93a"
    "7363c344fe6b199ee5d02e82d522c4feba15452f80288a821a579116ec6dad2b3b310da903401aa62100ab5d1a36553e"
    "06203b33890cc9b832f79ef80560ccb9a39ce767967ed628c6ad573cb116dbefefd75499da96bd68a8a97b928a8bbc10"
    "3b6621fcde2beca1231d206be6cd9ec7aff6f6c94fcd7204ed3455c68c83f4a41da4af2b74ef5c53f1d8ac70bdcb7ed1"
    "85ce81bd84359d44254d95629e9855a94a7c1958d1f8ada5d0532ed8a5aa3fb2d17ba70eb6248e594e1a2297acbbb39d"
    "502f1a8c6eb6f1ce22b3de1a1f40cc24554119a831a9aad6079cad88425de6bde1a9187ebb6092cf67bf2b13fd65f270"
    "88d78b7e883c8759d2c4f5c65adb7553878ad575f9fad878e80a0c9ba63bcbcc2732e69485bbc9c90bfbd62481d9089b"
    "eccf80cfe2df16a2cf65bd92dd597b0707e0917af48bbb75fed413d238f5555a7a569d80c3414a8d0859dc65a46128ba"
    "b27af87a71314f318c782b23ebfe808b82b0ce26401d2e22f04d83d1255dc51addd3b75a2b1ae0784504df543af8969b"
    "e3ea7082ff7fc9888c144da2af58429ec96031dbcad3dad9af0dcbaaaf268cb8fcffead94f3c7ca495e056a9b47acdb7"
    "51fb73e666c6c655ade8297297d07ad1ba5e43f1bca32301651339e22904cc8c42f58c30c04aafdb038dda0847dd988d"
    "cda6f3bfd15c4b4c4525004aa06eeff8ca61783aacec57fb3d1f92b0fe2fd1a85f6724517b65e614ad6808d6f6ee34df"
    "f7310fdc82aebfd904b01e1dc54b2927094b2db68d6f903b68401adebf5a7e08d78ff4ef5d63653a65040cf9bfd4aca7"
    "984a74d37145986780fc0b16ac451649de6188a7dbdf191f64b5fc5e2ab47b57f7f7276cd419c17a3ca8e1b939ae49e4"
    "88acba6b965610b5480109c8b17b80e1b7b750dfc7598d5d5011fd2dcc5600a32ef5b52a1ecc820e308aa342721aac09"
    "43bf6686b64b2579376504ccc493d97e6aed3fb0f9cd71a43dd497f01f17c0e2cb3797aa2a2f256656168e6c496afc5f"
    "b93246f6b1116398a346f1a641f3b041e989f7914f90cc2c7fff357876e506b50d334ba77c225bc307ba537152f3f161"
    "0e4eafe595f6d9d90d11faa933a15ef1369546868a7f3a45a96768d40fd9d03412c091c6315cf4fde7cb68606937380d"
    "b2eaaa707b4c4185c32eddcdd306705e4dc1ffc872eeee475a64dfac86aba41c0618983f8741c5ef68d3a101e8a3b8ca"
    "c60c905c15fc910840b94c00a0b9d0"
)


def test_takes_the_longest_signature_of_the_rfc() -> None:
    key = Ed25519PrivateKey.from_private_bytes(SECRET)
    assert len(MESSAGE_1024) == 1023
    assert (key.sign(MESSAGE_1024), key.public_key().public_bytes_raw()) == (SIGNATURE_1024, PUBLIC_1024)
    assert verify.is_signed(MESSAGE_1024, SIGNATURE_1024, PUBLIC_1024)


@pytest.mark.parametrize("at", range(0, 1023, 93))
def test_refuses_it_for_a_message_with_another_byte(at: int) -> None:
    changed = MESSAGE_1024[:at] + bytes([MESSAGE_1024[at] ^ 1]) + MESSAGE_1024[at + 1 :]
    assert not verify.is_signed(changed, SIGNATURE_1024, PUBLIC_1024)


@pytest.mark.parametrize("length", [0, 1, 31, 32, 33, 63, 65, 66, 96, 128])
def test_refuses_signatures_and_keys_of_any_other_length(length: int) -> None:
    signature, public_key = (SIGNATURE_1024 * 2)[:length], (PUBLIC_1024 * 4)[:length]
    assert not verify.is_signed(MESSAGE_1024, signature, PUBLIC_1024)
    assert length == 32 or not verify.is_signed(MESSAGE_1024, SIGNATURE_1024, public_key)


@pytest.mark.parametrize("times", range(1, 16))
def test_refuses_a_scalar_that_is_not_reduced(times: int) -> None:
    """S + n*L satisfies the equation as S does: whoever takes it lets anybody make a second signature."""
    scalar = int.from_bytes(SIGNATURE_1024[32:], "little") + times * ORDER
    if scalar >= 2**256:
        return
    forged = SIGNATURE_1024[:32] + scalar.to_bytes(32, "little")
    assert not verify.is_signed(MESSAGE_1024, forged, PUBLIC_1024)
    assert not is_valid_elsewhere(MESSAGE_1024, forged, PUBLIC_1024)


@pytest.mark.parametrize("point", SMALL)
def test_refuses_a_commitment_of_small_order_with_any_simple_scalar(point: bytes) -> None:
    for scalar in (0, 1, ORDER - 1, ORDER):
        forged = point + scalar.to_bytes(32, "little")
        assert not verify.is_signed(b"words", forged, PUBLIC)


def _secret_scalar() -> int:
    digest = bytearray(hashlib.sha512(KEY.private_bytes_raw()).digest()[:32])
    digest[0] &= 248
    digest[31] = digest[31] & 127 | 64
    return int.from_bytes(digest, "little")


def _sum(one: bytes, other: bytes) -> bytes:
    first, second = verify.read_point(one), verify.read_point(other)
    assert first is not None
    assert second is not None
    return verify._encoded(verify._two_products(1, first, 1, second))


@pytest.mark.parametrize("torsion", [point for point in SMALL if point != SMALL[0]])
def test_judges_a_key_of_mixed_order_as_the_other_library_does(torsion: bytes) -> None:
    """Key plus a point of small order: such a signature holds where k of it is nothing, and never else.

    Only the owner of the secret can make such a key; that some libraries multiply by eight first, and so take
    all of these, changes nothing for keys that were made in the usual way, which is what packs hold.
    """
    mixed, scalar = _sum(PUBLIC, torsion), _secret_scalar()
    nonce = 12345
    commitment = verify._encoded(verify._two_products(nonce, verify._BASE, 0, verify._BASE))
    taken = 0
    for number in range(48):
        message = b"%d" % number
        hashed = hashlib.sha512(commitment + mixed + message).digest()
        challenge = int.from_bytes(hashed, "little") % ORDER
        signature = commitment + ((nonce + challenge * scalar) % ORDER).to_bytes(32, "little")
        is_taken = verify.is_signed(message, signature, mixed)
        assert is_taken == is_valid_elsewhere(message, signature, mixed)
        taken += is_taken
    assert 0 < taken < 48


@pytest.mark.parametrize("torsion", [point for point in SMALL if point != SMALL[0]])
def test_refuses_a_commitment_of_mixed_order(torsion: bytes) -> None:
    signature = KEY.sign(b"words")
    forged = _sum(signature[:32], torsion) + signature[32:]
    assert not verify.is_signed(b"words", forged, PUBLIC)
    assert not is_valid_elsewhere(b"words", forged, PUBLIC)


def test_refuses_forms_of_a_key_or_commitment_that_are_not_reduced() -> None:
    signature = KEY.sign(b"words")
    for y in range(PRIME, 2**255):
        odd = y.to_bytes(32, "little")
        assert not verify.is_signed(b"words", odd + signature[32:], PUBLIC)
        assert not verify.is_signed(b"words", signature, odd)
