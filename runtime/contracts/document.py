"""What every stored document is made of: immutable, strict, and read back from its canonical bytes."""

from typing import Annotated, Any, Self, TypeVar

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


class RuleDocument(Contract):
    """Base of the documents that rules are made of: kept, and asked for their bytes at every judgement.

    So each remembers the bytes that it was written as, and its plain values. The bytes that it was read from
    need not be canonical. A copy remembers nothing: it is made to be given other values.
    """

    @property
    def plain(self) -> dict[str, Any]:
        """The values as expressions read them, made once: nobody may change them."""
        plain: dict[str, Any] | None = self.__dict__.get(_PLAIN)
        if plain is None:
            plain = self.__dict__[_PLAIN] = self.model_dump(mode="json")
        return plain

    def to_bytes(self) -> bytes:
        """The canonical JSON that is stored and hashed, written once."""
        written: bytes | None = self.__dict__.get(_WRITTEN)
        if written is None:
            written = self.__dict__[_WRITTEN] = super().to_bytes()
        return written

    def __copy__(self) -> Self:
        return _forgetting(super().__copy__())

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return _forgetting(super().__deepcopy__(memo))


# Where it is remembered: beside the fields, so that two documents are equal whatever they remember.
_PLAIN, _WRITTEN = "_plain", "_written"
Document = TypeVar("Document", bound=RuleDocument)


def _forgetting(copied: Document) -> Document:
    for remembered in (_PLAIN, _WRITTEN):
        copied.__dict__.pop(remembered, None)
    return copied
