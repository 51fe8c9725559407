"""Evidence packs: one file about one flow, which a stranger can check without this installation.

A pack is made in one snapshot of the database and signed; the same state gives the same bytes, but for the
moment in its manifest. What does not match the ledger is named in it and never shipped.
"""

import base64
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from audit import canonical, chain
from audit.packs import contents, progress, report, verify
from audit.packs.contents import Contents, NotSealedError, SealedEntry
from audit.packs.progress import Stage, Watch
from audit.sealing import own_key
from audit.verification.verify import snapshot

__all__ = ["NotSealedError", "evidence_pack", "verifier"]

_SIGNED_PREFIX: Final = b"dir-console evidence pack 1\n"
_README: Final = """\
This is an evidence pack of DIR Console: what its ledger recorded about one decision flow, with proofs.

To check it, run: python3 -I verify.py
It needs Python 3.11 or newer, this folder (or, as its argument, the ZIP file), and no network.
Take verify.py from a source that you trust; the copy in this pack is there for convenience.
Exit code 0 means that everything checked is whole, 1 that something is wrong and which item is the first,
2 that it cannot judge, for example because a file is missing.
It proves that the entries are those under the signed checkpoint, in order and unchanged; that objects/ and
payloads.jsonl hold what the entries name; that statements are signed with the keys that entries name; and
that the decision records in records/ (DSSE envelopes, named by the numbers of their entries) are signed and
say what the entries before them come to.
It does not prove that what agents, targets and people stated is true, nor anything after the checkpoint.
To know that the key is that of the installation, and that others see the same ledger, give a checkpoint or
a key that you received in another way: python3 -I verify.py --checkpoint FILE --key KEY
report.html shows the same for people and can be printed. absent.json says what is not here, and why.
"""


def evidence_pack(
    *, tenant: str, dfid: UUID, at: datetime, watch: Watch = progress.unwatched
) -> bytes | None:
    """The evidence pack of a flow as a ZIP file, made at `at`; None where there is no such flow.

    It holds what the newest checkpoint covers: seal first, so that it covers the newest entries, too. Raises
    NotSealedError where no checkpoint covers any entry of the flow.
    """
    with snapshot():
        found = contents.read(tenant=tenant, dfid=dfid, watch=watch)
        if found is None:
            return None
        watch(Stage.REPORT, 0, 0)
        members = _members(found)
    watch(Stage.FILES, 0, len(members))
    manifest = canonical.encode(
        {
            "format": verify.FORMAT_2,
            "dfid": str(dfid),
            "tenant": tenant,
            "made_at": chain.time_text(at),
            "origin": found.checkpoint.checkpoint.origin,
            "members": {name: canonical.digest(content) for name, content in members.items()},
        }
    )
    signer = own_key.signer(tenant=tenant, at=at)
    signature = signer.sign(_SIGNED_PREFIX + manifest).hex()
    members["manifest.json"] = manifest
    members["manifest.sig"] = f"{signer.key_id} {signature}\n".encode()
    return verify.pack_bytes(members)


@cache
def verifier() -> bytes:
    """The verifier as the one file that it is: in each pack, and by itself."""
    return Path(verify.__file__).read_bytes()


def _members(found: Contents) -> dict[str, bytes]:
    """Every member but the manifest and its signature."""
    members = {
        "checkpoint.txt": found.checkpoint.text.encode(),
        "keys.json": canonical.encode(
            [
                {
                    "key_id": key.key_id,
                    "public_key": _base64(key.public_key),
                    "from": chain.time_text(key.since),
                    "until": None if key.until is None else chain.time_text(key.until),
                }
                for key in found.keys
            ]
        ),
        "entries.jsonl": _lines(map(_entry, (*found.entries, *found.begun))),
        "payloads.jsonl": _lines(_payloads(found)),
        "signatures.jsonl": _lines(_signatures(found)),
        "absent.json": canonical.encode(dict(found.absent)),
        "report.html": report.render(found).encode(),
        "verify.py": verifier(),
        "README.txt": _README.encode(),
        **{f"objects/{digest}": content for digest, content in found.objects.items()},
        **{f"records/{record.seq}.dsse.json": record.envelope for record in found.records},
    }
    if found.head is not None:
        members["head.json"] = canonical.encode(dict(found.head))
    return members


def _lines(objects: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(canonical.encode(dict(item)) + b"\n" for item in objects)


def _entry(entry: SealedEntry) -> dict[str, Any]:
    return {
        "tenant": entry.tenant,
        "stream": entry.stream,
        "seq": entry.seq,
        "body": _base64(entry.body),
        "prev_hash": entry.prev_hash.hex(),
        "hash": entry.hash.hex(),
        "leaf_index": entry.place.index,
        "proof": [item.hex() for item in entry.place.hashes],
    }


def _payloads(found: Contents) -> Iterator[dict[str, Any]]:
    for commitment, held in found.payloads.items():
        if held.salt is None or held.body is None:
            yield {"commitment": commitment, "erased": True}
        else:
            yield {"commitment": commitment, "salt": _base64(held.salt), "body": _base64(held.body)}


def _signatures(found: Contents) -> Iterator[dict[str, Any]]:
    """Those of the statements that the pack holds."""
    for entry in found.entries:
        said = entry.payload
        if said.get("statement_digest") in found.objects:
            yield {
                "stream": entry.stream,
                "seq": entry.seq,
                "statement": said["statement_digest"],
                "signature": said.get("signature"),
                "key_id": said.get("key_id"),
            }


def _base64(held: bytes) -> str:
    return base64.b64encode(held).decode()
