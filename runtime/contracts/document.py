"""What every stored document is made of: immutable, strict, and read back from its canonical bytes."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, StringConstraints

from audit import canonical

Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$")]
Words = Annotated[str, StringConstraints(min_length=1, max_length=500)]


def is_none(value: Any) -> bool:
    """For `Field(exclude_if=...)` of an appended field: without a value, the bytes are those of before."""
    return value is None


def is_false(value: Any) -> bool:
    """The same for an appended flag."""
    return value is False


def is_one(value: Any) -> bool:
    """The same for an appended number of which one is the default."""
    return bool(value == 1)


def is_empty(value: Any) -> bool:
    """The same for an appended list."""
    return not value


class Contract(BaseModel):
    """Base of the stored documents: frozen, strict, no unknown fields."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", ser_json_inf_nan="strings")

    def to_bytes(self) -> bytes:
        """The canonical JSON that is stored and hashed."""
        return canonical.encode(self.model_dump(mode="json"))

    @property
    def digest(self) -> str:
        """Lower hex SHA-256 of the canonical bytes."""
        return canonical.digest(self.to_bytes())

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        """Read a document back from its stored bytes.

        Raises:
            pydantic.ValidationError: when the bytes are not such a document.
        """
        return cls.model_validate_json(body)
