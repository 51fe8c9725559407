"""The Merkle tree over all entries: what waits for it, its leaves, its hashes and its signed checkpoints."""

import uuid

from django.db import models
from django.db.models.functions import Length
from django.db.models.lookups import Exact

from audit.models.fields import RowKeyField

_ONLY = 1
_HASH_LENGTH = 32


def _origin() -> str:
    return f"dir-console/{uuid.uuid4().hex}"


class Tree(models.Model):
    """The one tree of this installation. Who seals locks this row, so there is one sealer at a time.

    `origin` names the tree in every checkpoint, permanently.
    """

    only = models.PositiveSmallIntegerField(primary_key=True, default=_ONLY, editable=False)
    origin = models.TextField(default=_origin, editable=False)
    size = models.BigIntegerField(default=0)

    class Meta:
        constraints = (
            models.CheckConstraint(condition=models.Q(only=_ONLY), name="tree_is_one"),
            models.CheckConstraint(condition=models.Q(size__gte=0), name="tree_size_not_negative"),
        )

    def __str__(self) -> str:
        return f"{self.origin} of {self.size}"


class UnsealedEntry(models.Model):
    """An entry that waits for its leaf: put here by a trigger, in the transaction that wrote the entry.

    Whatever the order of commits, a committed entry is either here or in the tree.
    """

    entry_id = RowKeyField(primary_key=True)

    def __str__(self) -> str:
        return f"{self.entry_id}"


class Leaf(models.Model):
    """The place of an entry in the tree. Append only, by triggers; no foreign key, as entries have none."""

    index = models.BigIntegerField(primary_key=True)
    entry_id = models.BigIntegerField(unique=True)

    class Meta:
        constraints = (models.CheckConstraint(condition=models.Q(index__gte=0), name="leaf_from_zero"),)

    def __str__(self) -> str:
        return f"{self.index}"


class Tile(models.Model):
    """Up to 256 hashes side by side, 32 bytes each: of leaves at level 0, of whole tiles of the level below.

    The last tile of a level grows; all of them follow from the entries, and are kept to answer quickly.
    """

    id = models.BigAutoField(primary_key=True)
    level = models.PositiveSmallIntegerField()
    number = models.BigIntegerField()
    hashes = models.BinaryField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=("level", "number"), name="tile_once"),)

    def __str__(self) -> str:
        return f"{self.level}/{self.number}"


class Checkpoint(models.Model):
    """A signed statement of the tree's size and root at a time. Append only, by triggers.

    `note` is the text as it was signed (`audit.sealing.notes`); the other columns repeat what it says.
    """

    id = models.BigAutoField(primary_key=True)
    size = models.BigIntegerField()
    root = models.BinaryField()
    at = models.DateTimeField()
    key_id = models.TextField()
    note = models.TextField()

    class Meta:
        constraints = (
            models.CheckConstraint(condition=models.Q(size__gte=0), name="checkpoint_size_not_negative"),
            models.CheckConstraint(
                condition=Exact(Length("root"), _HASH_LENGTH), name="checkpoint_root_length"
            ),
        )
        indexes = (models.Index(fields=("size",), name="checkpoint_by_size"),)

    def __str__(self) -> str:
        return f"{self.size} at {self.at}"


class HeadPage(models.Model):
    """Up to 256 ends of streams, by tenant and name, to which the checkpoint of this id commits.

    Only the newest such checkpoint has its pages here. `lines` are what is hashed, one to a line.
    """

    number = models.BigIntegerField(primary_key=True)
    checkpoint_id = models.BigIntegerField()
    first_tenant = models.TextField()
    first_stream = models.TextField()
    lines = models.BinaryField()

    def __str__(self) -> str:
        return f"{self.number} of checkpoint {self.checkpoint_id}"
