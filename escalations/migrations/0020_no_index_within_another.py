import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

# Each is the beginning of another index, which finds the same rows; every insert wrote both.
WITHIN_ANOTHER = (
    # As PostgreSQL still calls them: the table had another name.
    "escalations_newdecision_approver_id_5a215bc7",
    "escalations_newdecision_escalation_id_5777c813",
    "escalations_decision_approver_id_1d50a673",
    "escalations_decision_escalation_id_fa24c996",
    "escalations_effectstatement_intent_id_85c5302e",
    "escalations_evidence_escalation_id_fa78a633",
    "escalations_note_addressee_id_401acd18",
    "escalations_notemention_user_id_5b8b50aa",
    "escalations_notice_route_id_2660b158",
    "escalations_question_escalation_id_00e0e40d",
    "escalations_savedview_user_id_68bb161d",
)


class Migration(migrations.Migration):
    dependencies = [
        ("escalations", "0019_no_statistics_of_bytes"),
        ("runtime", "0061_no_index_within_another"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        # Dropped by name: SQLite would copy each table for the change of a field.
        migrations.SeparateDatabaseAndState(
            database_operations=[
                # Backwards none is made again: the other one still answers.
                migrations.RunSQL(
                    [f"DROP INDEX IF EXISTS {name}" for name in WITHIN_ANOTHER], migrations.RunSQL.noop
                )
            ],
            state_operations=[
                migrations.AlterField(
                    model_name="decision",
                    name="approver",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                migrations.AlterField(
                    model_name="decision",
                    name="escalation",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="decisions",
                        to="escalations.escalation",
                    ),
                ),
                migrations.AlterField(
                    model_name="effectstatement",
                    name="intent",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="effect_statements",
                        to="runtime.intent",
                    ),
                ),
                migrations.AlterField(
                    model_name="evidence",
                    name="escalation",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="evidence",
                        to="escalations.escalation",
                    ),
                ),
                migrations.AlterField(
                    model_name="note",
                    name="addressee",
                    field=models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                migrations.AlterField(
                    model_name="notemention",
                    name="user",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                migrations.AlterField(
                    model_name="notice",
                    name="route",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="notices",
                        to="escalations.notificationroute",
                    ),
                ),
                migrations.AlterField(
                    model_name="question",
                    name="escalation",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="questions",
                        to="escalations.escalation",
                    ),
                ),
                migrations.AlterField(
                    model_name="savedview",
                    name="user",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
    ]
