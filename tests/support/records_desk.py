"""The records desk of the documentation: a ruleset of Cedar policies, and ways to write others like it."""

from pathlib import Path
from typing import Any

import yaml

from audit import canonical
from runtime.contracts.ruleset import RulesetDocument
from runtime.packs.services import packs
from tests.support import api_client

AGENT = "records-clerk"
KIND = "SHARE_RECORD"
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "records-desk.yaml"
ASKED: dict[str, Any] = {"record": "r-1", "ward": "surgery", "sealed": False, "purpose": "billing"}
PERMIT = "permit (principal, action, resource);"


def written() -> dict[str, Any]:
    """The ruleset as the documentation has it."""
    found: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())["rulesets"][0]
    return found


def ruleset(
    *policies: dict[str, Any], request: dict[str, Any] | None = None, **fields: Any
) -> RulesetDocument:
    """The ruleset of the documentation, with other policies, parts of its request, or fields."""
    base = written()
    asked = {**base["cedar_request"], **(request or {})}
    body = {**base, "cedar_request": asked, **({"policies": policies} if policies else {}), **fields}
    return RulesetDocument.from_bytes(canonical.encode(body))


def policy(name: str, text: str, **fields: Any) -> dict[str, Any]:
    """A policy that decides `access`."""
    return {"id": name, "decides": "access", "cedar": text, **fields}


def load_pack(text: str | None = None) -> packs.Loaded | packs.PackRefused:
    """Load and activate the pack, or another text of it."""
    return packs.load(text=text or EXAMPLE.read_text(), source="records.yaml", activate=True, actor="system")


def ask(caller: api_client.Caller, dfid: str, **changes: Any) -> dict[str, Any]:
    """What the policies say of a record."""
    body = {"ruleset": "record-access", "features": {**ASKED, **changes}, "policy_kind": KIND}
    answer: dict[str, Any] = caller.post(f"/flows/{dfid}/rules", body).ok()
    return answer
