"""The demo agents, a thread each: ``python -m demo.agents --base URL --keys FILE``.

Keys come from the file (JSON, agent id to key, readable by its owner only) or from variables such as
``DIR_AGENT_KEY_MOMENTUM_TRADER``.
"""

import argparse
import contextlib
import json
import logging
import os
import random
import stat
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from demo import parent_death
from demo.agent_base import Persona
from demo.agents_of_desk import Ambitious, Confused, Steady, Unsure
from demo.baskets import Switcher
from demo.client import Client
from demo.cues import Cues
from demo.house_rules import BlockTrader, ListingClerk, Overconfident, Researcher, Rulebook
from demo.http_client import Wire
from demo.monitor import Watchful
from demo.orchestra import Conductor, Voice
from demo.strategy import Strategist

CAST: Final[Mapping[str, type[Persona]]] = {
    "momentum-trader": Steady,
    "ambitious-trader": Ambitious,
    "unsure-analyst": Unsure,
    "confused-trader": Confused,
    "sleeve-strategist": Strategist,
    "basket-trader": Switcher,
    "risk-monitor": Watchful,
    "conductor": Conductor,
    "voice-momentum": Voice,
    "voice-value": Voice,
    "voice-caution": Voice,
    "careless-researcher": Researcher,
    "rulebook-trader": Rulebook,
    "overconfident-trader": Overconfident,
    "block-trader": BlockTrader,
    "listing-clerk": ListingClerk,
}
# The version that the packs give to the manifest of each of them.
MANIFEST_VERSION: Final = "1.1.0"
# Whom the strategist lets act under its flows; its manifest says the same.
DESKS: Final = ("momentum-trader", "unsure-analyst")
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_LEAVE_S: Final = 3.0


def read_keys(*, file: Path | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Agent keys by agent id; a key file that others may read is refused with ``PermissionError``."""
    if file is None:
        names = {agent: f"DIR_AGENT_KEY_{agent.upper().replace('-', '_')}" for agent in CAST}
        return {agent: environ[name] for agent, name in names.items() if environ.get(name)}
    if file.stat().st_mode & _OTHERS:
        raise PermissionError(f"{file} may be read by others: run chmod 600 on it")
    return {str(agent): str(key) for agent, key in json.loads(file.read_text()).items()}


def cast(
    *,
    base_url: str,
    keys: Mapping[str, str],
    seed: int,
    stop: threading.Event,
    notes_folder: Path | None = None,
) -> list[Persona]:
    """A persona for each agent that has a key; each goes on with what it waited for before."""
    personas = {
        agent: persona(
            client=Client(
                base_url=base_url,
                agent_id=agent,
                key=keys[agent],
                manifest_version=MANIFEST_VERSION,
                stop=stop,
            ),
            rng=random.Random(f"{seed}:{agent}"),
            stop=stop,
            notes_folder=notes_folder,
        )
        for agent, persona in CAST.items()
        if agent in keys
    }
    for persona in personas.values():
        if isinstance(persona, Strategist):
            persona.desks = [personas[agent] for agent in DESKS if agent in personas]
    return list(personas.values())


def main(argv: list[str]) -> int:
    """Run until SIGTERM, SIGINT or the parent's end."""
    parser = argparse.ArgumentParser(prog="demo.agents", description="Agents for trials.")
    parser.add_argument("--base", required=True, metavar="URL")
    parser.add_argument("--keys", type=Path, metavar="FILE")
    parser.add_argument("--broker", default="", metavar="URL", help="whose scenarios are played")
    parser.add_argument("--notes", type=Path, metavar="DIR", help="where agents keep what they wait for")
    parser.add_argument("--seed", type=int, default=7)
    chosen = parser.parse_args(argv)
    try:
        keys = read_keys(file=chosen.keys, environ=os.environ)
    except (OSError, ValueError) as trouble:
        print(f"agents: {trouble}", file=sys.stderr)
        return 2
    stop = threading.Event()
    personas = cast(base_url=chosen.base, keys=keys, seed=chosen.seed, stop=stop, notes_folder=chosen.notes)
    if not personas:
        print(f"agents: no key for any of {', '.join(CAST)}", file=sys.stderr)
        return 2
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    parent_death.stop_when_told(stop)
    # daemon: a long poll in flight must not hold the process after its time
    threads = [threading.Thread(target=persona.run, daemon=True) for persona in personas]
    for thread in threads:
        thread.start()
    with contextlib.closing(Wire(base_url=chosen.broker, patience_s=0, stop=stop)) as broker:
        cues = Cues(broker=broker, personas={persona.client.agent_id: persona for persona in personas})
        while not stop.wait(1.0):
            if chosen.broker:
                cues.take()
    for thread in threads:
        thread.join(timeout=_LEAVE_S / len(threads))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
