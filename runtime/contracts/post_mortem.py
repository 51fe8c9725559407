"""The template of a post-mortem. Frozen, pure."""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from audit import canonical

LONGEST_PART: Final = 20_000
Words = Annotated[str, Field(max_length=LONGEST_PART)]


class PostMortemBody(BaseModel):
    """The parts that people write; the actions have rows of their own, since they are done one by one."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    summary: Words = ""
    impact: Words = ""
    timeline: Words = ""
    root_causes: Words = ""
    went_well: Words = ""
    went_badly: Words = ""

    @property
    def missing(self) -> tuple[str, ...]:
        """The parts without which the lead cannot sign it off."""
        needed = {"summary": self.summary, "impact": self.impact, "root causes": self.root_causes}
        return tuple(name for name, words in needed.items() if not words.strip())

    def to_bytes(self) -> bytes:
        """The canonical bytes, to which the ledger commits."""
        return canonical.encode(self.model_dump(mode="json"))

    @classmethod
    def from_bytes(cls, body: bytes) -> "PostMortemBody":
        """Read what `to_bytes` wrote."""
        return cls.model_validate(canonical.decode(body))
