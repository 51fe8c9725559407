"""Evidence packs as the product makes them, and the verifier in them, run as a stranger runs it."""

import base64
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from audit import canonical
from audit.packs import export, sources
from runtime.core import clock
from runtime.maintenance.services import evidence_packs
from tests.support.own_words import stands

TENANT = "default"


@dataclass(frozen=True)
class Pack:
    """A pack with its members, read by the standard library."""

    archive: bytes
    members: Mapping[str, bytes]

    def read(self, name: str) -> Any:
        """A JSON member."""
        return canonical.decode(self.members[name])

    def lines(self, name: str) -> list[dict[str, Any]]:
        """A member of JSON lines."""
        return [canonical.decode(line) for line in self.members[name].splitlines()]

    def entries(self, *kinds: str) -> list[dict[str, Any]]:
        """The decoded bodies of the entries, all of them or of some kinds."""
        bodies = [canonical.decode(_bytes(line["body"])) for line in self.lines("entries.jsonl")]
        return [body for body in bodies if not kinds or body["kind"] in kinds]

    def flow(self) -> list[dict[str, Any]]:
        """The decoded bodies of the entries of the flow itself."""
        return [body for body in self.entries() if body["stream"] == self.read("manifest.json")["dfid"]]

    def named(self) -> Iterator[str]:
        """Every digest that an entry names and that must be an object, or absent with a reason."""
        for body in self.flow():
            yield from sources.list_named(body["kind"], body["payload"])

    def commitments(self) -> list[str]:
        """Every commitment of an entry, in order."""
        return [value for body in self.flow() for _, value in sources.list_commitments(body["payload"])]

    def objects(self) -> dict[str, bytes]:
        """The objects by digest."""
        prefix = "objects/"
        return {
            name.removeprefix(prefix): content
            for name, content in self.members.items()
            if name.startswith(prefix)
        }

    def records(self) -> dict[int, dict[str, Any]]:
        """The decision records by the numbers of their entries, in order."""
        found = {
            body["seq"]: self.members[name]
            for body in self.flow()
            if (name := f"records/{body['seq']}.dsse.json") in self.members
        }
        return {
            seq: canonical.decode(_bytes(canonical.decode(held)["payload"])) for seq, held in found.items()
        }

    def absent(self) -> dict[str, str]:
        """What is not in it, and why."""
        absent: dict[str, str] = self.read("absent.json")
        return absent

    def report(self) -> str:
        """The page for people."""
        return self.members["report.html"].decode()

    def holds(self, words: str) -> list[str]:
        """The members in which these words stand, also where they are in base64."""
        found = [name for name, content in self.members.items() if stands(words, content)]
        for name in ("payloads.jsonl", "entries.jsonl"):
            hidden = (_bytes(line.get("body", "")) for line in self.lines(name))
            found += [name for body in hidden if stands(words, body)]
        for seq, record in self.records().items():
            found += [f"records/{seq}.dsse.json"] if stands(words, canonical.encode(record)) else []
        return found


def make(dfid: UUID) -> Pack:
    """The pack of a flow, sealed up to its newest entries."""
    archive = evidence_packs.make(tenant=TENANT, dfid=dfid)
    assert archive is not None
    return read(archive)


def again(dfid: UUID) -> Pack:
    """The pack of a flow without sealing anything."""
    archive = export.evidence_pack(tenant=TENANT, dfid=dfid, at=clock.now())
    assert archive is not None
    return read(archive)


def read(archive: bytes) -> Pack:
    """A pack of its bytes; the archive itself must be whole."""
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        assert file.testzip() is None
        return Pack(archive, {name: file.read(name) for name in file.namelist()})


def verified(pack: Pack, folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Exit code and answer of the pack's own verifier, run beside nothing else."""
    (folder / "pack.zip").write_bytes(pack.archive)
    (folder / "verify.py").write_bytes(pack.members["verify.py"])
    empty = folder / "empty"
    empty.mkdir(exist_ok=True)
    return _run([str(folder / "verify.py"), str(folder / "pack.zip"), "--json", *options], empty)


def verified_unpacked(pack: Pack, folder: Path) -> tuple[int, dict[str, Any]]:
    """The same for a pack that was unpacked into a folder."""
    for name, content in pack.members.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return _run(["verify.py", "--json"], folder)


def _run(arguments: Sequence[str], folder: Path) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-I", *arguments],
        cwd=folder,
        env={},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, answer


def _bytes(encoded: str) -> bytes:
    return base64.b64decode(encoded)
