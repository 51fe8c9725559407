"""export_evidence: one flow with its proofs in one file, which verify.py checks anywhere."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from audit.packs import export
from runtime.maintenance.services import evidence_packs


class Command(BaseCommand):
    """Exit 0 when the file is written; 1 for an unknown flow, and for a file that is there already."""

    help = "Write the evidence pack of a flow: its entries, what they name, proofs, and a verifier."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("dfid", help="the id of the flow, as its page shows it")
        parser.add_argument(
            "--out", type=Path, required=True, help="the file to write; it must not exist yet"
        )

    def handle(self, *, dfid: str, out: Path, **options: Any) -> None:
        if out.exists():
            raise CommandError(f"{out} exists already; nothing was written.")
        pack = _make(dfid)
        try:
            with out.open("xb") as file:
                file.write(pack)
        except OSError as error:
            raise CommandError(f"{out} cannot be written: {error.strerror}.") from error
        self.stdout.write(f"{out}: {len(pack)} bytes. To check it: python3 -I verify.py {out}")


def _make(text: str) -> bytes:
    try:
        dfid = UUID(text)
    except ValueError as error:
        raise CommandError(f"{text} is not the id of a flow.") from error
    try:
        pack = evidence_packs.make(tenant=settings.DIR_TENANT, dfid=dfid, with_heads=True)
    except export.NotSealedError as error:
        raise CommandError(
            "No signed checkpoint covers this flow yet, so a pack would prove nothing. If a restored backup "
            "waits for an admin, see manage.py leave_recovery."
        ) from error
    if pack is None:
        raise CommandError(f"There is no flow {dfid}.")
    return pack
