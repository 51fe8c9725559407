"""JSON Merge Patch (RFC 7396): a patch says which members are new, which are other, and which go."""

from typing import Any


def apply(target: Any, patch: Any) -> Any:
    """`target` with `patch` in it; neither is changed. A member that is null in the patch goes."""
    if not isinstance(patch, dict):
        return patch
    kept = dict(target) if isinstance(target, dict) else {}
    for name, change in patch.items():
        if change is None:
            kept.pop(name, None)
        else:
            kept[name] = apply(kept.get(name), change)
    return kept
