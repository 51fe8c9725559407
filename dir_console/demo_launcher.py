"""The demo beside an embedded console: its packs, keys and broker, all kept in `DIR_DATA/demo/`."""

import base64
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.core.management.base import CommandError

from audit import actors
from demo import agents, supervisor
from demo.market import Schedule
from dir_console import env, single_process
from runtime.contracts.problem import Problem
from runtime.incidents.services import incident_rules
from runtime.packs.services import packs
from runtime.registry.services import credentials

# The trades of the desk, the agents that show one kind of rule each, and those built with frameworks.
PACKS = tuple(
    Path(__file__).parents[1] / "demo" / name
    for name in ("paper-brokerage.yaml", "house-rules.yaml", "expenses.yaml")
)
AGENTS = (*agents.CAST, *supervisor.FRAMEWORKS)
BROKER_PORT = 9410
TARGETS = ("broker", "watchlist", "desk-services", "expenses")
SECRET_ENV = "BROKER_SECRET"  # noqa: S105  # the name of a variable
FEED = "paper-broker"
# A key writes under one prefix, so the feed has two.
FEED_PREFIXES = {"feed": "price.", "market_feed": "market."}


@dataclass(frozen=True, kw_only=True)
class Demo:
    """What the children are started with."""

    folder: Path
    keys: Mapping[str, str]
    feed_key: str
    market_key: str
    broker_port: int
    market: Schedule
    secret: str
    control_token: str

    def start(self, *, base_url: str) -> supervisor.Children:
        """Start the children; each waits for what it needs."""
        return supervisor.start(
            base_url=base_url,
            demo_dir=self.folder,
            keys=self.keys,
            feed_key=self.feed_key,
            market_key=self.market_key,
            broker_port=self.broker_port,
            market=self.market,
            secret=self.secret,
            control_token=self.control_token,
        )


def is_remembered(folder: Path) -> bool:
    """Whether this data folder was started with the demo before."""
    return (folder / "demo").is_dir()


def prepare(folder: Path, *, market: Schedule) -> Demo:
    """Load and activate the packs, issue the keys that are missing, choose the broker's place.

    The broker's address is allowed for this process only, and only with its port: the rest of the loopback
    stays refused.
    """
    demo_folder = folder / "demo"
    env.make_private(demo_folder)
    for pack in PACKS:
        _load(pack)
    # What an admin has switched off stays off: only rules that were never there are added.
    incident_rules.add_usual(tenant=settings.DIR_TENANT, actor=actors.SYSTEM, activates=True)
    keys = _keys(demo_folder / "issued_keys.json")
    port = single_process.free_port(BROKER_PORT)
    settings.DIR_TARGET_URLS.update(dict.fromkeys(TARGETS, f"http://127.0.0.1:{port}"))
    settings.DIR_EGRESS_ALLOW.append(f"127.0.0.1:{port}")
    fresh = f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"
    secret = env.keep_secret_file(demo_folder / "broker_secret", fresh)
    os.environ[SECRET_ENV] = secret
    # The page of scenarios asks the broker, over HTTP, and is there only while these are set.
    settings.DIR_DEMO_URL = f"http://127.0.0.1:{port}"
    settings.DIR_DEMO_TOKEN = secrets.token_urlsafe(32)
    return Demo(
        folder=demo_folder,
        keys={agent: keys[agent] for agent in AGENTS},
        feed_key=keys["feed"],
        market_key=keys["market_feed"],
        broker_port=port,
        market=market,
        secret=secret,
        control_token=settings.DIR_DEMO_TOKEN,
    )


def _load(pack: Path) -> None:
    text = pack.read_text(encoding="utf-8")
    result = packs.load(text=text, source=pack.name, activate=True, actor=actors.SYSTEM)
    if isinstance(result, packs.PackRefused):
        raise CommandError(
            "\n".join((f"The demo pack {pack.name} was rejected.", *map(str, result.problems)))
        )


def _keys(file: Path) -> dict[str, str]:
    """The demo's keys from their file; those that are missing or revoked are reissued."""
    known: dict[str, str] = json.loads(file.read_text()) if file.exists() else {}
    keys = {agent: text for agent in AGENTS if credentials.agent_key(text := known.get(agent, ""))}
    keys |= {name: text for name in FEED_PREFIXES if credentials.feed_key(text := known.get(name, ""))}
    for agent in set(AGENTS) - keys.keys():
        keys[agent] = _text(
            credentials.issue_agent_key(tenant=settings.DIR_TENANT, agent_id=agent, actor=actors.SYSTEM)
        )
    for name in FEED_PREFIXES.keys() - keys.keys():
        keys[name] = _text(
            credentials.issue_feed_key(
                tenant=settings.DIR_TENANT, feed=FEED, prefix=FEED_PREFIXES[name], actor=actors.SYSTEM
            )
        )
    if keys != known:
        # Readable by its owner only, and put in place when it is whole.
        draft = file.with_suffix(f".{os.getpid()}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            out.write(json.dumps(keys, indent=1))
        draft.replace(file)
    return keys


def _text(issued: credentials.IssuedKey | Problem) -> str:
    if isinstance(issued, Problem):
        raise CommandError(f"The demo cannot start: {issued.detail}")
    return issued.text
