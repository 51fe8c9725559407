"""The Merkle tree against published roots, and against the definitions of RFC 9162 written down naively."""

import hashlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.sealing import merkle

# The leaves and roots that implementations of certificate transparency are tested with.
LEAVES = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
sizes = st.integers(0, 70)


def reader(leaves: Sequence[bytes]) -> merkle.Reader:
    """Complete nodes over these leaves, each computed by the definition."""
    return lambda level, number: naive_root(leaves[number << level : (number + 1) << level])


def naive_root(leaves: Sequence[bytes]) -> bytes:
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    k = naive_split(len(leaves))
    return hashlib.sha256(b"\x01" + naive_root(leaves[:k]) + naive_root(leaves[k:])).digest()


def naive_split(size: int) -> int:
    return max(1 << power for power in range(size.bit_length()) if 1 << power < size)


def naive_path(index: int, leaves: Sequence[bytes]) -> list[bytes]:
    if len(leaves) == 1:
        return []
    k = naive_split(len(leaves))
    if index < k:
        return [*naive_path(index, leaves[:k]), naive_root(leaves[k:])]
    return [*naive_path(index - k, leaves[k:]), naive_root(leaves[:k])]


def naive_subproof(size: int, leaves: Sequence[bytes], is_known: bool) -> list[bytes]:
    if size == len(leaves):
        return [] if is_known else [naive_root(leaves)]
    k = naive_split(len(leaves))
    if size <= k:
        return [*naive_subproof(size, leaves[:k], is_known), naive_root(leaves[k:])]
    return [*naive_subproof(size - k, leaves[k:], False), naive_root(leaves[:k])]


def numbered(size: int) -> list[bytes]:
    return [bytes([number]) for number in range(size)]


@pytest.mark.parametrize("size", range(9))
def test_the_root_is_the_published_one(size: int) -> None:
    leaves = LEAVES[:size]
    assert merkle.root(size, reader(leaves)).hex() == ROOTS[size] == naive_root(leaves).hex()


@given(sizes)
def test_the_root_is_that_of_the_definition(size: int) -> None:
    leaves = numbered(size)
    assert merkle.root(size, reader(leaves)) == naive_root(leaves)
    frontier = merkle.Frontier()
    for leaf in leaves:
        frontier.push(merkle.hash_leaf(leaf))
    assert (frontier.size, frontier.root()) == (size, naive_root(leaves))


@given(st.data(), sizes.filter(bool))
def test_an_inclusion_proof_is_that_of_the_definition_and_holds_for_its_leaf_alone(
    data: st.DataObject, size: int
) -> None:
    leaves, index = numbered(size), data.draw(st.integers(0, size - 1))
    proof, root = merkle.inclusion_proof(index, size, reader(leaves)), naive_root(leaves)
    assert proof == naive_path(index, leaves)
    for other in range(size):
        for claimed in {index, data.draw(st.integers(0, size - 1))}:
            holds = merkle.verify_inclusion(
                leaf_hash=merkle.hash_leaf(leaves[other]), index=claimed, size=size, proof=proof, root=root
            )
            assert holds == (other == claimed == index)


@given(st.data(), sizes, sizes)
def test_a_consistency_proof_is_that_of_the_definition_and_holds_for_its_trees_alone(
    data: st.DataObject, one: int, other: int
) -> None:
    first, second = sorted((one, other))
    leaves = numbered(second)
    proof = merkle.consistency_proof(first, second, reader(leaves))
    if first:
        assert proof == naive_subproof(first, leaves, True)
    roots = {"from_root": naive_root(leaves[:first]), "to_root": naive_root(leaves)}
    assert merkle.verify_consistency(from_size=first, to_size=second, proof=proof, **roots)
    which = data.draw(st.sampled_from(sorted(roots)))
    wrong = {**roots, which: hashlib.sha256(roots[which]).digest()}
    # An empty tree says nothing of the other one, whatever that is.
    proves_nothing = first == 0 and second > 0 and which == "to_root"
    found = merkle.verify_consistency(from_size=first, to_size=second, proof=proof, **wrong)
    assert found is proves_nothing


@given(st.data(), sizes.filter(bool))
def test_a_changed_proof_does_not_hold(data: st.DataObject, size: int) -> None:
    leaves = numbered(size)
    index, first = data.draw(st.integers(0, size - 1)), data.draw(st.integers(1, size))
    included = merkle.inclusion_proof(index, size, reader(leaves))
    consistent = merkle.consistency_proof(first, size, reader(leaves))
    root = naive_root(leaves)
    for bad in changed(data, included):
        assert not merkle.verify_inclusion(
            leaf_hash=merkle.hash_leaf(leaves[index]), index=index, size=size, proof=bad, root=root
        )
    for bad in changed(data, consistent):
        assert not merkle.verify_consistency(
            from_size=first, to_size=size, from_root=naive_root(leaves[:first]), to_root=root, proof=bad
        )


def changed(data: st.DataObject, proof: list[bytes]) -> list[list[bytes]]:
    """Proofs that are longer, shorter, or other in one place."""
    bad = [[*proof, bytes(32)], [bytes(32), *proof]]
    if proof:
        at = data.draw(st.integers(0, len(proof) - 1))
        other = hashlib.sha256(proof[at]).digest()
        bad += [proof[:-1], proof[1:], [*proof[:at], other, *proof[at + 1 :]]]
    return bad


@pytest.mark.parametrize(("index", "size"), [(0, 0), (3, 3), (-1, 3), (5, 2)])
def test_there_is_no_proof_of_a_leaf_outside_the_tree(index: int, size: int) -> None:
    with pytest.raises(ValueError, match="is not in a tree"):
        merkle.inclusion_proof(index, size, reader(numbered(8)))
    assert not merkle.verify_inclusion(leaf_hash=bytes(32), index=index, size=size, proof=[], root=bytes(32))


@pytest.mark.parametrize(("first", "second"), [(3, 2), (-1, 2)])
def test_no_tree_begins_with_a_larger_one(first: int, second: int) -> None:
    with pytest.raises(ValueError, match="does not begin with"):
        merkle.consistency_proof(first, second, reader(numbered(8)))
    assert not merkle.verify_consistency(
        from_size=first, to_size=second, from_root=bytes(32), to_root=bytes(32), proof=[]
    )
