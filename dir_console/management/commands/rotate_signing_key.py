"""rotate_signing_key: begin another key, vouched for by the one in use."""

import base64
import os
import secrets
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from audit import actors, signing
from dir_console import env
from runtime.core import transactions
from runtime.maintenance.services import sealing


class Command(BaseCommand):
    """The key in use signs the entry of the new one: who trusted the one may trust the other."""

    help = (
        "Begin another key for checkpoints and decisions. A key in the data folder is replaced; where it "
        "comes from DIR_SIGNING_KEY, the new value is printed, once. Restart every process with it within "
        "24 hours: after that nothing that the old key signs counts."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        seed = secrets.token_bytes(signing.SEED_BYTES)
        text = base64.b64encode(seed).decode()
        new = signing.LocalSigner(seed)
        is_given = bool(os.environ.get("DIR_SIGNING_KEY"))
        place = Path(settings.DATA_DIR) / env.SIGNING_KEY_FILE
        draft = None
        try:
            # The file is ready before the entry: a full disk must not leave a key begun that nobody has.
            draft = None if is_given else env.draft_secret_file(place, text)
            refused = sealing.rotate_key(new, actor=actors.SYSTEM)
            if refused is not None:
                raise CommandError(refused.detail)
            if draft is not None:
                draft.replace(place)
        except (OSError, transactions.BusyError) as error:
            raise CommandError(f"The key was not changed: {error}") from error
        finally:
            if draft is not None:
                draft.unlink(missing_ok=True)
        if draft is None:
            self.stdout.write(text)
        self.stderr.write(
            f"The key {new.key_id} has begun. Restart every process within 24 hours"
            + (" with this DIR_SIGNING_KEY." if is_given else ".")
        )
