"""`manage.py retention [--dry-run] [--json]`: erase words, and delete facts, whose time is over."""

import json
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from runtime.contracts.retention import WORDS
from runtime.epochs.services import epochs
from runtime.maintenance.queries.old_facts import OldVersions
from runtime.maintenance.services import fact_pruning, retention
from runtime.maintenance.services.retention import Looked, Totals


class Command(BaseCommand):
    """Exit 0 when all that is due was looked at; 1 where a flow could not be erased: see the log."""

    help = (
        "Erase the words of flows that ended longer ago than their policy kind, or DIR_RETENTION_DAYS, keeps "
        "them. What is on hold, linked by an incident, denied, escalated, failed or destructive stays. Then "
        "delete the versions of facts that DIR_FACT_RETENTION keeps no longer."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only say what would be erased, and kept")
        parser.add_argument("--json", action="store_true", help="print one JSON object for each line")

    def handle(self, *, dry_run: bool, **options: Any) -> None:
        refused = epochs.refuse_while_recovering()
        if refused is not None and not dry_run:
            raise CommandError(f"Nothing was erased. {refused.detail}")
        totals, as_json = Totals(), options["json"]
        for looked in retention.walk(tenant=settings.DIR_TENANT, totals=totals, dry_run=dry_run):
            self.stdout.write(json.dumps(_plain(looked, dry_run)) if as_json else _line(looked, dry_run))
        pruned = 0
        for old in fact_pruning.walk(tenant=settings.DIR_TENANT, dry_run=dry_run):
            pruned += old.count
            self.stdout.write(json.dumps(_plain_fact(old, dry_run)) if as_json else _fact_line(old, dry_run))
        counts = {
            "would_erase" if dry_run else "erased": totals.erased,
            "kept": {why.value: count for why, count in sorted(totals.kept.items())},
            "without_words": totals.without_words,
            "failed": totals.failed,
            "would_delete_versions" if dry_run else "deleted_versions": pruned,
        }
        if as_json:
            self.stdout.write(json.dumps(counts))
        else:
            self.stdout.write(f"{'would erase' if dry_run else 'erased'}: {totals.erased}")
            for why, count in sorted(totals.kept.items()):
                self.stdout.write(f"kept: {count}. {WORDS[why]}")
            self.stdout.write(f"without words: {totals.without_words}")
            self.stdout.write(f"versions of facts: {pruned} {'would be deleted' if dry_run else 'deleted'}")
        if totals.failed:
            raise CommandError(f"{totals.failed} could not be erased; see the log.")


def _line(looked: Looked, dry_run: bool) -> str:
    if looked.is_erased:
        return f"{'would erase' if dry_run else 'erased'} {looked.dfid}: {looked.of.reason}"
    if looked.kept is None:
        return f"without words {looked.dfid}"
    return f"kept {looked.dfid}: {looked.detail or WORDS[looked.kept]}"


def _plain(looked: Looked, dry_run: bool) -> dict[str, Any]:
    return {
        "dfid": str(looked.dfid),
        "policy_kind": looked.of.kind,
        "policy_version": looked.of.version,
        "days": looked.of.days,
        "would_erase" if dry_run else "erased": looked.is_erased,
        "kept": looked.kept.value if looked.kept else None,
        "why": looked.detail or (WORDS[looked.kept] if looked.kept else ""),
    }


def _fact_line(old: OldVersions, dry_run: bool) -> str:
    done = "would delete" if dry_run else "deleted"
    return f"{done} versions {old.first} to {old.through} of {old.path}: {old.of.selector}={old.of.days}"


def _plain_fact(old: OldVersions, dry_run: bool) -> dict[str, Any]:
    return {
        "fact": old.path,
        "class": old.of.selector,
        "days": old.of.days,
        "would_delete" if dry_run else "deleted": {"first": old.first, "through": old.through},
    }
