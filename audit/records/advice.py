"""How decision records refer to what was read of memory and to what was advised. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from audit.events import Kind
from audit.records import beginning

# The versions of records that refer to none of it.
WITHOUT: Final = (beginning.FIRST_VERSION, beginning.SECOND_VERSION)
KINDS: Final = frozenset({Kind.MEMORY_READ, Kind.RULES_EVALUATED, Kind.DECISION_RECOMMENDED})


def reference(kind: str, said: Mapping[str, Any]) -> str:
    """The reference to what an entry of these kinds is about; empty where nothing of memory was given."""
    match kind:
        case Kind.RULES_EVALUATED:
            return f"rule_output:{said['rule_output_id']}#sha256:{said['output_digest']}"
        case Kind.DECISION_RECOMMENDED:
            return f"decision_package:{said['decision_id']}#sha256:{said['package_digest']}"
    if not said.get("digest"):
        return ""
    return f"memory:{said['scope']}/{said['key']}@{said['version']}#sha256:{said['digest']}"
