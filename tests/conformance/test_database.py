"""The constraints of the database: as the models state them, and named where they are not. On a copy."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, models

from audit.models import Leaf
from dir_console.conformance import database
from dir_console.conformance.items import Answer
from escalations.models import Escalation
from runtime.flows.models import Attempt, Flow, Intent, Outcome, Proposal, Verdict
from tests.support.conformance_items import ask

Damage = Callable[[Any], object]


def stated(model: type[models.Model], name: str, instead: models.BaseConstraint | None = None) -> Damage:
    """The constraint is gone, or is another one of the same name."""

    def change(editor: Any) -> None:
        before = list(model._meta.constraints)
        gone = next(one for one in before if one.name == name)
        # SQLite makes the table anew, from what the model says.
        model._meta.constraints = [one for one in before if one is not gone]
        try:
            editor.remove_constraint(model, gone)
            if instead is not None:
                model._meta.constraints.append(instead)
                editor.add_constraint(model, instead)
        finally:
            model._meta.constraints = before

    return change


def altered(model: type[models.Model], name: str, **options: Any) -> Damage:
    """A column with other options."""

    def change(editor: Any) -> None:
        before: Any = model._meta.get_field(name)
        made = before.clone()
        for option, value in options.items():
            setattr(made, option, value)
        made.set_attributes_from_name(name)
        made.model = model
        if before.remote_field:
            made.remote_field.model = before.remote_field.model
        editor.alter_field(model, before, made)

    return change


DAMAGED: dict[str, tuple[Damage, str]] = {
    "check": (
        stated(Verdict, "verdict_decision_known"),
        "verdict_decision_known of runtime_verdict is missing",
    ),
    "unique": (stated(Attempt, "attempt_number_once"), "attempt_number_once of runtime_attempt is missing"),
    "unique with a condition": (
        stated(Intent, "intent_one_live_per_flow"),
        "intent_one_live_per_flow of runtime_intent is missing",
    ),
    "another check": (
        stated(
            Verdict,
            "verdict_decision_known",
            models.CheckConstraint(
                condition=models.Q(decision__in=["ACCEPT", "OTHER"]), name="verdict_decision_known"
            ),
        ),
        "verdict_decision_known of runtime_verdict is not what the model states",
    ),
    "another condition": (
        stated(
            Escalation,
            "escalation_one_open_per_flow",
            models.UniqueConstraint(
                fields=("flow",), condition=models.Q(state="NEVER"), name="escalation_one_open_per_flow"
            ),
        ),
        "escalation_one_open_per_flow of escalations_escalation is not what the model states",
    ),
    "a column that may be empty": (
        altered(Proposal, "digest", null=True),
        "digest of runtime_proposal may be empty",
    ),
    "a column without its reference": (
        altered(Flow, "delegator", db_constraint=False),
        "delegator_id of runtime_flow refers to nothing",
    ),
    "a column that is gone": (
        lambda editor: editor.remove_field(Outcome, Outcome._meta.get_field("duration_ms")),
        "duration_ms of runtime_outcome is missing",
    ),
}


@pytest.mark.django_db
def test_the_database_is_as_the_models_state() -> None:
    found = ask("constraints")
    assert (found.answer, found.why) == (Answer.YES, "")
    compared = database.compare()
    assert compared.tables > 50
    assert all(compared.counts[name] > 40 for name in ("check", "unique constraint", "foreign key"))


@pytest.mark.parametrize("name", DAMAGED)
def test_a_constraint_that_is_gone_is_named(real_db: str, name: str) -> None:
    damage, why = DAMAGED[name]
    with connection.schema_editor() as editor:
        damage(editor)
    found = ask("constraints")
    assert found.answer is Answer.NO
    assert why in found.why


def test_a_column_that_is_no_longer_unique_is_named(real_db: str) -> None:
    with connection.schema_editor() as editor:
        altered(Leaf, "entry_id", _unique=False)(editor)
    assert "entry_id of audit_leaf is not unique" in ask("constraints").why


def test_a_migration_that_was_not_applied_is_named(real_db: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'escalations' AND name LIKE '0014%%'")
    found = ask("constraints")
    assert found.answer is Answer.NO
    assert "escalations.0014" in found.why


def test_a_trigger_that_is_gone_is_named(real_db: str) -> None:
    assert ask("triggers").answer is Answer.YES
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("DROP TRIGGER audit_record_no_update")
        else:
            cursor.execute("ALTER TABLE audit_decisionrecord DISABLE TRIGGER audit_record_no_change")
    found = ask("triggers")
    assert found.answer is Answer.NO
    assert "audit_record_no_" in found.why


def test_comparing_leaves_foreign_keys_checked(real_db: str) -> None:
    """A schema editor of SQLite that is entered switches them off."""
    database.compare()
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA foreign_keys")
            assert cursor.fetchone() == (1,)
