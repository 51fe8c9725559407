"""The pack of the API's tests with a workflow that the trader's flows follow."""

from typing import Any

import yaml

from runtime.packs.services import packs
from runtime.packs.services.packs import Loaded, PackRefused
from tests.support import api_client
from tests.support.workflow_story import RESEARCH


def load(version: str = "9.0.0", **changes: Any) -> Loaded | PackRefused:
    """Load `pack_with`."""
    text = yaml.safe_dump(pack_with(version, **changes))
    return packs.load(text=text, source="pack.yaml", activate=True, actor="user:999")


def pack_with(version: str = "9.0.0", **changes: Any) -> dict[str, Any]:
    """The pack of `ground` with the workflow `research` of `version`, which the trader's manifest names."""
    pack: dict[str, Any] = yaml.safe_load(api_client.PACK)
    workflow = {**RESEARCH, "version": version, **changes}
    pack["workflows"] = [workflow]
    (trader,) = [agent for agent in pack["agents"] if agent["agent_id"] == api_client.TRADER]
    trader["manifest"] = {
        **trader["manifest"],
        "version": version,
        "workflow": f"{workflow['workflow']}@{version}",
    }
    return pack
