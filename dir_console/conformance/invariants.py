"""The invariants of the runtime, each tried as far as that can be done while it runs."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from django.conf import settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.models import Count, Exists, F, OuterRef
from django.template.loader import render_to_string

from audit import canonical, cells
from audit.events import Kind
from audit.live import hints
from audit.models import LedgerEntry
from audit.verification import triggers, verify
from dir_console.conformance import access, dare, database, imports, trial_run
from dir_console.conformance.imports import Import
from dir_console.conformance.items import Answer, Check, Finding, Group, counted, judged
from dir_console.conformance.sample import Sample
from escalations.contracts import DecisionState, Family, State
from escalations.models import Decision as PersonsDecision
from escalations.models import Escalation
from runtime.contracts.proposal import ProposalDocument
from runtime.contracts.states import AttemptState, Decision, Purpose
from runtime.flows.models import Attempt, Flow, Intent, Outcome, Proposal, Verdict
from runtime.flows.queries import calls_in_doubt
from runtime.kernel.gate import pipeline
from runtime.kernel.gate.gate_input import PolicyBundle
from runtime.proposals.queries.replay_results import ReplayDifference
from runtime.workers import celery_tasks

# What the gate must not know: the clock, chance, the database, the network, other threads.
_IMPURE: Final = (
    "asyncio",
    "django",
    "logging",
    "os",
    "random",
    "secrets",
    "socket",
    "subprocess",
    "threading",
    "time",
    "urllib",
)
_GATE: Final = ("runtime.kernel", "runtime.contracts")
# What lets something run in the name of a person.
_DECIDING: Final = (
    "escalations.services.bulk_deciding",
    "escalations.services.deciding",
    "escalations.services.stating",
    "escalations.services.taking_back",
)
_HOSTILE: Final = "<script>alert(1)</script>"


def check_determinism(sample: Sample) -> Finding:
    """Stored inputs give the stored verdicts again, here and in another process; the gate imports no "
    "clock."""
    wrong, equal = list[str](), 0
    for row in sample.verdicts:
        given, rules = bytes(row.input), bytes(row.bundle.body)
        if cells.digest_of(row.input) != row.input_digest:
            wrong.append(f"The input of verdict {row.pk} does not have its digest.")
        elif pipeline.judge_bytes(given, rules) != bytes(row.body):
            wrong.append(f"Verdict {row.pk} comes out otherwise.")
        else:
            equal += 1
    other = sample.trial().get("judge")
    if other is not None and not other["is_equal"]:
        wrong.append("Another process comes to another verdict.")
    impure = [each for each in sample.imports if each.by.startswith(_GATE) and _is_impure(each)]
    wrong += [f"{each.by} imports {each.module}." for each in impure]
    tried = (
        f"Judged {counted(len(sample.verdicts), 'stored verdict')} of the sample again, and one in another "
        "process with another hash seed; read the imports of the gate for a clock, chance, the database or "
        "the network."
    )
    seen = f"{equal} of {len(sample.verdicts)} the same bytes; {counted(len(impure), 'such import')}."
    if not sample.verdicts and not wrong:
        why = "No proposal was judged in a flow that has ended."
        return Finding(answer=Answer.NOT_APPLICABLE, tried=tried, seen=seen, why=why)
    return judged(tried=tried, seen=seen, wrong=wrong)


def _is_impure(found: Import) -> bool:
    return found.module.split(".")[0] in _IMPURE


def check_intents(sample: Sample) -> Finding:
    """No intent without an accepting verdict; no credential of a target outside the execution service."""
    intents = Intent.objects.filter(tenant=sample.tenant)
    accepted = Verdict.objects.filter(proposal=OuterRef("proposal"), decision=Decision.ACCEPT)
    without = list(intents.filter(~Exists(accepted)).values_list("pk", flat=True)[:100])
    wrong = [f"Intent {pk} has no accepting verdict." for pk in without]
    intruders = imports.list_intruders(sample.imports)
    secrets = [each for each in sample.imports if each.module in imports.ENVIRONMENT and _is_misplaced(each)]
    wrong += [f"{each.by}, line {each.line}, reaches into {each.module}." for each in intruders]
    wrong += [f"{each.by}, line {each.line}, reads the environment, where secrets are." for each in secrets]
    return judged(
        tried=f"Counted the intents without an accepting verdict among all {intents.count()}; read the "
        "source for use of the adapters, and of the environment that holds the secrets of targets, outside "
        "the execution service and the settings.",
        seen=f"{counted(len(without), 'intent')} without a verdict; "
        f"{counted(len(intruders) + len(secrets), 'place')} in the source.",
        wrong=wrong,
    )


def _is_misplaced(found: Import) -> bool:
    return not found.by.startswith((imports.ADAPTERS, "dir_console"))


def check_one_effect(sample: Sample) -> Finding:
    """No call of an intent succeeded twice under one key; each answer follows a row that was there before."""
    done = Attempt.objects.filter(
        intent__tenant=sample.tenant, state=AttemptState.SUCCEEDED, purpose=Purpose.CALL
    )
    twice = done.values("intent_id", "target_key").annotate(times=Count("pk")).filter(times__gt=1)
    wrong = [f"A call of intent {row['intent_id']} succeeded {row['times']} times." for row in twice[:100]]
    answers = 0
    for dfid, entries in sample.entries.items():
        begun = set[tuple[str, int]]()
        for entry in entries:
            if entry.kind == Kind.ATTEMPT_STARTED:
                begun.add((entry.payload["intent_id"], entry.payload["number"]))
            elif entry.kind in (Kind.ATTEMPT_FINISHED, Kind.ATTEMPT_REPORTED_LATE):
                answers += 1
                if (entry.payload["intent_id"], entry.payload["number"]) not in begun:
                    wrong.append(f"Flow {dfid}, entry {entry.seq}: an answer to a call that was never begun.")
    doubts = Attempt.objects.filter(calls_in_doubt.IN_DOUBT, intent__tenant=sample.tenant).count()
    return judged(
        tried="Looked for keys under which more than one call of an intent succeeded, among all "
        f"{done.count()}; and whether each of {counted(answers, 'answer')} in the sample follows its "
        "recorded attempt.",
        seen=f"{counted(len(twice), 'call')} that succeeded twice; {counted(doubts, 'call')} in doubt now, "
        "which nothing repeats by itself unless the target honours keys.",
        wrong=wrong,
    )


_ROWS: Final[Mapping[str, tuple[Callable[[str], int], tuple[Kind, ...]]]] = {
    "flow": (lambda tenant: Flow.objects.of(tenant).count(), (Kind.FLOW_OPENED,)),
    "proposal": (
        lambda tenant: Proposal.objects.filter(flow__tenant=tenant).count(),
        (Kind.PROPOSAL_SUBMITTED,),
    ),
    "verdict": (
        lambda tenant: Verdict.objects.filter(proposal__flow__tenant=tenant).count(),
        (Kind.VERDICT_GIVEN,),
    ),
    "intent": (lambda tenant: Intent.objects.filter(tenant=tenant).count(), (Kind.INTENT_CREATED,)),
    "attempt": (
        lambda tenant: Attempt.objects.filter(intent__tenant=tenant).count(),
        (Kind.ATTEMPT_STARTED,),
    ),
    "outcome": (
        lambda tenant: Outcome.objects.filter(intent__tenant=tenant).count(),
        (Kind.OUTCOME_RECORDED,),
    ),
    "escalation": (
        lambda tenant: Escalation.objects.filter(tenant=tenant).count(),
        (Kind.ESCALATION_OPENED,),
    ),
    "decision": (
        lambda tenant: PersonsDecision.objects.filter(escalation__tenant=tenant).count(),
        (Kind.ESCALATION_DECIDED, Kind.ESCALATION_FIRST_DECIDED),
    ),
}


def check_recording(sample: Sample) -> Finding:
    """As many rows as entries about them, and the rows of the sample are what the entries say."""
    wrong, compared = list[str](), list[str]()
    with verify.snapshot():
        for name, (count, kinds) in _ROWS.items():
            rows = count(sample.tenant)
            entries = LedgerEntry.objects.filter(tenant=sample.tenant, kind__in=kinds).count()
            compared.append(f"{name} {rows}")
            if rows != entries:
                wrong.append(f"There are {counted(rows, name)} and {entries} entries about them.")
    differences = [one for one in sample.replays.results.values() if isinstance(one, ReplayDifference)]
    wrong += [
        f"Flow {one.dfid}, entry {one.seq}: {one.path} is not what was recorded." for one in differences
    ]
    return judged(
        tried=f"Counted rows and the entries about them, for {', '.join(_ROWS)}; compared every row of "
        f"{counted(len(sample.replays.results), 'flow')} with its entries, in both directions.",
        seen=f"Rows, each with its entry: {', '.join(compared)}. {counted(len(differences), 'flow')} with a "
        "difference.",
        wrong=wrong,
    )


def check_closed(sample: Sample) -> Finding:
    """The gate says no wherever something is missing, and what expired was not carried out."""
    chosen = trial_run.pick_verdict(sample.verdicts)
    answers, wrong = dict[str, str](), list[str]()
    if chosen is not None:
        asked = pipeline.Judgement.from_bytes(bytes(chosen.input))
        rules = PolicyBundle.from_bytes(bytes(chosen.bundle.body))
        late = asked.proposal.valid_until_ms + 1
        blind = asked.facts.model_copy(update={"world": {}, "snapshot": None})
        cases = {
            "no kind": (asked.facts, rules.model_copy(update={"kind": None}), asked.now_ms),
            "no manifest": (asked.facts, rules.model_copy(update={"manifest": None}), asked.now_ms),
            "neither": (asked.facts, PolicyBundle(manifest=None, kind=None), asked.now_ms),
            "no session": (asked.facts.model_copy(update={"session_valid": False}), rules, asked.now_ms),
            "after its window": (asked.facts, rules, late),
        }
        if rules.kind is not None and rules.kind.depends_on:
            cases["no facts"] = (blind, rules, asked.now_ms)
        for name, (facts, bundle, now_ms) in cases.items():
            answers[name] = pipeline.judge(
                asked.proposal, facts, bundle, now_ms, asked.gate_version
            ).decision.value
        wrong += [
            f"With {name} the gate answers ACCEPT."
            for name, said in answers.items()
            if said == Decision.ACCEPT
        ]
    expired = Escalation.objects.filter(tenant=sample.tenant, state=State.EXPIRED)
    decided = PersonsDecision.objects.filter(escalation__in=expired, state=DecisionState.IN_EFFECT).count()
    ran = Attempt.objects.filter(
        intent__flow__escalations__state=State.EXPIRED,
        intent__flow__escalations__family=Family.DECISION,
        intent__tenant=sample.tenant,
        started_at__gt=F("intent__flow__escalations__resolved_at"),
    ).count()
    if decided or ran:
        wrong.append(f"Of expired escalations {decided} are decided, and {ran} calls followed them.")
    tried = (
        f"Judged one stored proposal again in {counted(len(answers), 'case')} with something taken away, in "
        f"memory; looked for decisions and calls after {counted(expired.count(), 'expired escalation')}."
    )
    seen = ", ".join(f"{name}: {said}" for name, said in answers.items()) or "No verdict in the sample"
    seen += f". {decided} decisions, {ran} calls."
    if chosen is None and not wrong:
        why = "No proposal was judged in a flow that has ended."
        return Finding(answer=Answer.NOT_APPLICABLE, tried=tried, seen=seen, why=why)
    return judged(tried=tried, seen=seen, wrong=wrong)


def check_signing(sample: Sample) -> Finding:
    """Decisions name the evidence that is stored; no key, no token and no link decides."""
    agents, links = access.try_as_agent(), access.try_links()
    deciding = {name: imports.list_importers(sample.imports, name) for name in _DECIDING}
    wrong = [*agents.wrong, *links.wrong]
    wrong += [
        f"{by} uses {name}."
        for name, importers in deciding.items()
        for by in importers
        if not by.startswith("escalations.") or by == "escalations.api"
    ]
    approvals = dare.check_approvals(sample)
    if approvals.answer is Answer.NO:
        wrong.append(approvals.why)
    return judged(
        tried=f"Asked the guards of {counted(agents.asked, 'page')} with an agent's key and as somebody "
        f"without a role; opened {counted(links.asked, 'address', 'addresses')} at which people decide with "
        f"a GET; read the source for who else can decide. {approvals.tried}",
        seen=f"{len(agents.wrong)} of {counted(agents.asked, 'page')} let an agent in ({agents.public} are "
        f"for everybody, such as sign-in); {len(links.wrong)} of {links.asked} act on a GET. "
        f"{approvals.seen}",
        wrong=wrong,
    )


def check_claims(sample: Sample) -> Finding:
    """An agent's explanation does not reach the gate, and is shown as text."""
    wrong = list[str]()
    if "explain" in ProposalDocument.model_fields:
        wrong.append("The gate's input has a place for the explanation.")
    told = {row.pk: row.explain for row in sample.proposals if row.explain.strip()}
    inputs = {row.pk: bytes(row.input) for row in sample.verdicts}
    wrong += [
        f"The explanation of proposal {pk} is in the gate's input."
        for pk, text in told.items()
        if canonical.encode(text) in inputs.get(pk, b"")
    ]
    shown = render_to_string("escalations/_claims.html", {"case": {"explain": _HOSTILE}})
    if _HOSTILE in shown or "alert(1)" not in shown:
        wrong.append("The page of an escalation shows markup of an explanation as markup.")
    return judged(
        tried=f"Searched the inputs of {counted(len(inputs), 'verdict')} for "
        f"{counted(len(told), 'explanation')} of their proposals; drew the claims of an escalation with a "
        "script for an explanation.",
        seen=f"{len(wrong)} found. The script is shown as text." if not wrong else f"{len(wrong)} found.",
        wrong=wrong,
    )


def check_messages(sample: Sample) -> Finding:
    """Messages carry ids and numbers only, so that losing them loses nothing."""
    tasks = [task for task in vars(celery_tasks).values() if hasattr(task, "apply_async")]
    carried = {task.name: list(inspect.signature(task.run).parameters) for task in tasks}
    wrong = [
        f"The message {name} carries {field}."
        for name, fields in carried.items()
        for field in fields
        if not field.endswith(("_id", "_ids"))
    ]
    hint = list(inspect.signature(hints.hint).parameters)
    wrong += [f"A live hint carries {field}." for field in hint if field not in {"tenant", "stream", "seq"}]
    if settings.CELERY_TASK_SERIALIZER != "json" or settings.CELERY_ACCEPT_CONTENT != ["json"]:
        wrong.append("The broker's messages may hold more than JSON.")
    named = ", ".join(
        f"{name} ({', '.join(fields) or 'nothing'})" for name, fields in sorted(carried.items())
    )
    return judged(
        tried=f"Read what each of {counted(len(tasks), 'message')} of the work queue and each live hint "
        "carries.",
        seen=f"{named}; a hint ({', '.join(hint)}). What happens when they are lost is shown by the tests.",
        wrong=wrong,
    )


def check_constraints(sample: Sample) -> Finding:
    """The database has every constraint that the models state, and every migration."""
    compared = database.compare()
    loader = MigrationLoader(connection)
    # Each by itself: Django's own plan looks no further than the newest that was applied.
    waiting = [".".join(one) for one in sorted(set(loader.graph.nodes) - set(loader.applied_migrations))]
    wrong = [*compared.wrong, *(f"The migration {name} was not applied." for name in waiting)]
    counts = ", ".join(
        counted(count, name, _PLURALS.get(name, "")) for name, count in compared.counts.items()
    )
    return judged(
        tried="Compared the catalogue of the database with the models of "
        f"{counted(compared.tables, 'table')}: {counts}.",
        seen=f"{counted(len(compared.wrong), 'difference')}, {counted(len(waiting), 'migration')} to be "
        "applied.",
        wrong=wrong,
    )


_PLURALS: Final = {"column that must be filled": "columns that must be filled"}


def check_triggers(sample: Sample) -> Finding:
    """The triggers that keep entries, leaves, checkpoints and records as they are."""
    wanted, missing = triggers.WANTED[connection.vendor], triggers.missing()
    return judged(
        tried=f"Compared {counted(len(wanted), 'trigger')} with their definitions in the database's "
        "catalogue.",
        seen=f"{len(wanted) - len(missing)} of {len(wanted)} as they should be.",
        wrong=[f"The trigger {name} is missing or changed." for name in missing],
    )


def _check(number: int, asks: str, **fields: Any) -> Check:
    return Check(
        id=f"invariant-{number}", group=Group.INVARIANTS, paper=f"Invariant {number}", asks=asks, **fields
    )


CHECKS: Final = (
    _check(
        1,
        "The verdict is deterministic: same proposal, facts, rules and time, same bytes.",
        tries="Judges stored inputs again, here and in another process, and reads what the gate imports.",
        run=check_determinism,
        tests=(
            "tests/promises/test_verdicts_are_deterministic.py::test_another_process_with_other_hashes_gives_the_same_bytes",
            "tests/properties/test_gate.py::test_every_process_gives_the_same_bytes_whatever_its_hash_seed",
        ),
    ),
    _check(
        2,
        "No side effect without an intent, no intent without an accepting verdict, and no credential of a "
        "target outside the execution service.",
        tries="Counts all intents without such a verdict, and reads the source for other uses of the "
        "adapters and of the environment.",
        run=check_intents,
        tests=("tests/promises/test_no_effect_without_an_intent.py::test_a_person_goes_the_same_road",),
    ),
    _check(
        3,
        "One effect per intent as far as the target allows: an attempt is recorded before its call, and one "
        "of unknown result is never sent again blindly.",
        tries="Looks for calls that succeeded twice under one key, and for answers without a recorded "
        "attempt.",
        run=check_one_effect,
        tests=(
            "tests/promises/test_one_effect_per_intent.py::test_eight_duplicate_intents_have_one_effect",
            "tests/promises/test_one_effect_per_intent.py::test_a_call_that_may_have_taken_effect_is_never_made_again",
            "tests/faults/test_embedded.py::test_loses_and_repeats_nothing_when_the_server_is_killed",
        ),
    ),
    _check(
        4,
        "Nothing is unrecorded: a change and its entry share one transaction, and refusals are recorded too.",
        tries="Counts rows and the entries about them, and compares the rows of the sample in both "
        "directions.",
        run=check_recording,
        tests=(
            "tests/promises/test_nothing_goes_unrecorded.py::test_what_cannot_be_written_to_the_ledger_does_not_happen",
            "tests/promises/test_nothing_goes_unrecorded.py::test_a_refusal_is_an_entry",
        ),
    ),
    _check(
        5,
        "Fail closed: what is unknown, missing or late is a no.",
        tries="Judges a stored proposal again in memory without its kind, its manifest, its session or its "
        "facts, and after its window; looks for what followed expired escalations.",
        run=check_closed,
        tests=(
            "tests/promises/test_fails_closed.py::test_silence_about_an_escalation_is_a_no",
            "tests/kernel/test_gate_pipeline.py::test_no_findings_at_all_reject_like_a_fail",
        ),
    ),
    _check(
        6,
        "What you saw is what you signed: a decision names the evidence that was shown, and only a person "
        "in a browser session decides.",
        tries="Asks the guard of every page with an agent's key, opens the addresses of decisions with a "
        "GET, reads the source for who else can decide, and verifies decisions against their evidence.",
        run=check_signing,
        tests=(
            "tests/promises/test_what_you_saw_is_what_you_signed.py::test_no_key_no_token_and_no_link_decides",
            "tests/promises/test_what_you_saw_is_what_you_signed.py::test_evidence_that_moved_must_be_seen_again",
        ),
    ),
    _check(
        7,
        "Claims are not facts: what an agent writes to explain itself grants nothing and is shown as text.",
        tries="Searches the inputs of verdicts for explanations, and draws a hostile one.",
        run=check_claims,
        tests=(
            "tests/promises/test_claims_are_not_facts.py::test_words_change_no_verdict",
            "tests/promises/test_claims_are_not_facts.py::test_words_stand_last_and_cannot_act",
        ),
    ),
    _check(
        8,
        "The database row is the truth: messages carry only ids, and losing them costs seconds.",
        tries="Reads what the messages of the work queue and the live hints carry.",
        run=check_messages,
        tests=(
            "tests/promises/test_the_row_is_the_truth.py::test_workers_find_what_nobody_rang_for",
            "tests/faults/test_production.py::test_needs_no_redis_to_answer_and_none_to_be_exact",
        ),
    ),
    Check(
        id="constraints",
        group=Group.INVARIANTS,
        paper="What the invariants rest on",
        asks="The database itself keeps the constraints that the models state.",
        tries="Compares the catalogue of the database with the models: checks, unique constraints, foreign "
        "keys, columns that must be filled; and looks for migrations that were not applied.",
        run=check_constraints,
        tests=("tests/conformance/test_database.py::test_a_constraint_that_is_gone_is_named",),
    ),
    Check(
        id="triggers",
        group=Group.INVARIANTS,
        paper="What the invariants rest on",
        asks="The database refuses to change or remove entries, leaves, checkpoints and decision records.",
        tries="Compares the triggers with their definitions in the database's catalogue.",
        run=check_triggers,
        tests=("tests/audit/test_ledger_triggers.py::test_the_database_refuses_to_change_entries",),
    ),
)
