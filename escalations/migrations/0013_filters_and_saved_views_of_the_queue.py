"""What the queue filters and groups by, from the current evidence; and views that people save."""

import json

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models import Q

NAME_CHARS = 200


def name_of(finding):
    """The id of the limit, rule or constraint that a finding is about, else the name of its check."""
    ids = {"rules": finding.get("code", ""), "constraints": finding.get("message", "").partition(":")[0]}
    return finding.get("subject") or ids.get(finding["check"], "") or finding["check"]


def rule_of(shown):
    """The rule, limit or check that referred it, as `EvidenceDocument.rule` reads it."""
    findings = shown.get("findings") or []
    by_outcome = [item for outcome in ("FAIL", "REFER") for item in findings if item["outcome"] == outcome]
    crossed = (item for item in by_outcome if item.get("code", "") == shown["reason"])
    return next((name_of(item) for item in crossed), "")[:NAME_CHARS]


def incident_of(shown):
    """What holds it up beside others, as `incident` of the evidence's family reads it."""
    if shown["family"] == "DECISION":
        failing = (item for item in shown["findings"] if item["outcome"] == "FAIL")
        return next((name_of(item) for item in failing), "")[:NAME_CHARS]
    attempts = (shown.get("operational") or {}).get("attempts") or []
    if not attempts:
        return ""
    last = attempts[-1]
    failure = last["status_code"] or last["error_category"] or last["state"]
    return f"{shown['operational']['target']} {failure}"[:NAME_CHARS]


def fill(apps, schema_editor):
    """Read both from the evidence in force; evidence that cannot be read is left for verify_ledger to name."""
    escalations = apps.get_model("escalations", "Escalation")
    evidence = apps.get_model("escalations", "Evidence")
    for row in evidence.objects.filter(revision=models.F("escalation__revision")).iterator(chunk_size=500):
        try:
            shown = json.loads(bytes(row.body))
            found = {"rule": rule_of(shown), "incident": incident_of(shown)}
        except (KeyError, TypeError, ValueError):
            continue
        if any(found.values()):
            escalations.objects.filter(pk=row.escalation_id).update(**found)


class Migration(migrations.Migration):

    dependencies = [
        ("escalations", "0012_notification_routes_know_critical"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField("Escalation", "rule", models.CharField(blank=True, default="", max_length=200)),
        migrations.AddField("Escalation", "incident", models.CharField(blank=True, default="", max_length=200)),
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.CreateModel(
            name="SavedView",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("tenant", models.CharField(default="default", max_length=64)),
                ("position", models.PositiveSmallIntegerField()),
                ("name", models.CharField(max_length=40)),
                ("query", models.CharField(max_length=2000)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "ordering": ("user", "position"),
                "constraints": (
                    models.UniqueConstraint(fields=("user", "name"), name="saved_view_name_once_per_person"),
                    models.UniqueConstraint(fields=("user", "position"), name="saved_view_position_once_per_person"),
                    models.CheckConstraint(
                        condition=Q(position__gte=1, position__lte=20), name="saved_view_most_per_person"
                    ),
                    models.CheckConstraint(
                        condition=~Q(name="") & ~Q(query=""), name="saved_view_has_name_and_query"
                    ),
                ),
            },
        ),
    ]
