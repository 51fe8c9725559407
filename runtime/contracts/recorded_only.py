"""The one table of fields, and of notes in fields, that are kept, hashed and shown, and enforced by nothing.

Who writes such a field must read that wherever the field is shown. A field that comes to be enforced leaves
this table; every optional field of a pack is either read by code that enforces it, or stands here.
"""

from collections.abc import Iterator, Mapping

from runtime.contracts.document import Contract
from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.policy_kind import ApprovalMode, KindDocument, Rule

WORDS = "recorded, not enforced"
Place = tuple[str | int, ...]

FIELDS: Mapping[type[Contract], frozenset[str]] = {
    KindDocument: frozenset(
        {
            "category",
            "outputs_schema",
            "allowed_outcomes",
            "jurisdiction",
        }
    ),
    Rule: frozenset({"version", "priority", "severity", "mandatory"}),
    ManifestDocument: frozenset({"model_profile", "prompt_bundle_hash"}),
}

# A field that is enforced by one of these others, where the document has it.
ENFORCED_BY: Mapping[tuple[type[Contract], str], tuple[str, ...]] = {
    (KindDocument, "allowed_outcomes"): ("outcome",),
    (KindDocument, "outputs_schema"): ("outcome", "outputs"),
    # Calibration maps are those of one model profile.
    (ManifestDocument, "model_profile"): ("confidence",),
}

# Where a plain text is a note for people, beside what is enforced.
_NOTES = {(KindDocument, "required_evidence"), (KindDocument, "red_lines")}


def places(document: Contract, place: Place = ()) -> Iterator[Place]:
    """Where a document has such a field with a value of its own, in the order of its fields."""
    listed = FIELDS.get(type(document), frozenset())
    for name in type(document).model_fields:
        value = getattr(document, name)
        others = ENFORCED_BY.get((type(document), name), ())
        if any(getattr(document, other) not in (None, _default(document, other)) for other in others):
            continue
        if name in listed:
            if value != _default(document, name):
                yield (*place, name)
        elif isinstance(value, tuple):
            for at, item in enumerate(value):
                if isinstance(item, Contract):
                    yield from places(item, (*place, name, at))
                elif (type(document), name) in _NOTES:
                    yield (*place, name, at)
        elif name == "approval_mode" and value not in (None, *ApprovalMode):
            yield (*place, name)


def _default(document: Contract, name: str) -> object:
    return type(document).model_fields[name].get_default(call_default_factory=True, validated_data={})


def names(document: Contract) -> tuple[str, ...]:
    """The same as people read it, each once whatever the number of rules: `red_lines`, `rules.severity`."""
    written = (".".join(str(step) for step in place if isinstance(step, str)) for place in places(document))
    return tuple(dict.fromkeys(written))


def sentence(document: Contract) -> str:
    """All of it in one line; empty where there is nothing to say."""
    found = names(document)
    return f"{WORDS}: {', '.join(found)}" if found else ""
