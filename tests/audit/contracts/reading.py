"""Contracts as an auditor reads them, each checked by its published schema."""

import hashlib
import json
from pathlib import Path
from typing import Any

import jsonschema_rs

from tests.support import api_client

DOCS = Path(__file__).parents[3] / "docs" / "contracts"


def heard(auditor: api_client.Caller, name: str, wanted: object) -> api_client.Heard:
    """The answer for a contract and an id."""
    return auditor.get(f"/audit/contracts/{name}/{wanted}")


def view(auditor: api_client.Caller, name: str, wanted: object) -> Any:
    """A contract, after a check by its published schema."""
    shown = heard(auditor, name, wanted).ok()
    schema = json.loads((DOCS / f"{name}.schema.json").read_text())
    jsonschema_rs.Draft202012Validator(schema, validate_formats=True).validate(shown)
    return shown


def sha256(value: object) -> str:
    """The digest of stored bytes."""
    return hashlib.sha256(bytes(value)).hexdigest()  # type: ignore[call-overload]
