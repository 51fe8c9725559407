"""The hashes of the tree as they are stored: 256 side by side in a tile, added to as the tree grows."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from audit.models import Tile
from audit.sealing import merkle

WIDTH: Final = 256
HASH_BYTES: Final = 32
_LEVELS_PER_TILE: Final = 8  # a tile is 2**8 wide, so its root is eight levels up

Place = tuple[int, int]


class TileError(LookupError):
    """A tile that the tree needs is missing or too short."""


@dataclass(slots=True)
class Tiles:
    """The tiles of one tree, loaded as they are needed. `changed` are those that `add` wrote to."""

    held: dict[Place, bytearray] = field(default_factory=dict)
    changed: set[Place] = field(default_factory=set)

    def add(self, size: int, leaf_hashes: Iterable[bytes]) -> int:
        """Add leaves after the first `size`; returns the new size. `store` writes what changed."""
        for leaf_hash in leaf_hashes:
            level, number, added = 0, size, leaf_hash
            while True:
                place = (level, number // WIDTH)
                tile = self._hashes(*place) if number % WIDTH else self.held.setdefault(place, bytearray())
                # What lies past the end of the tree was never signed.
                tile[number % WIDTH * HASH_BYTES :] = added
                self.changed.add(place)
                if number % WIDTH != WIDTH - 1:
                    break
                # The tile is full: its root is a hash of the level above.
                level, number, added = level + 1, number // WIDTH, self._fold(bytes(tile))
            size += 1
        return size

    def read(self, level: int, number: int) -> bytes:
        """The hash of a complete node, for `merkle`. Raises TileError where it is not stored."""
        tile_level, height = divmod(level, _LEVELS_PER_TILE)
        first, count = number << height, 1 << height
        hashes = self._hashes(tile_level, first // WIDTH)
        start = first % WIDTH * HASH_BYTES
        found = hashes[start : start + count * HASH_BYTES]
        if len(found) != count * HASH_BYTES:
            raise TileError(f"tile {tile_level}/{first // WIDTH} is too short")
        return self._fold(bytes(found))

    def store(self) -> None:
        """Write the tiles that changed, in one statement."""
        rows = [Tile(level=at[0], number=at[1], hashes=bytes(self.held[at])) for at in sorted(self.changed)]
        Tile.objects.bulk_create(
            rows, update_conflicts=True, unique_fields=["level", "number"], update_fields=["hashes"]
        )
        self.changed.clear()

    def _hashes(self, level: int, number: int) -> bytearray:
        held = self.held.get((level, number))
        if held is None:
            stored = Tile.objects.filter(level=level, number=number).values_list("hashes", flat=True).first()
            if stored is None:
                raise TileError(f"tile {level}/{number} is missing")
            held = self.held[level, number] = bytearray(stored)
        return held

    @staticmethod
    def _fold(hashes: bytes) -> bytes:
        """The root over a power of two of hashes, side by side."""
        row = [hashes[start : start + HASH_BYTES] for start in range(0, len(hashes), HASH_BYTES)]
        while len(row) > 1:
            row = [merkle.hash_children(*row[at : at + 2]) for at in range(0, len(row), 2)]
        return row[0]
