"""A flow's entries and what they commit to, read the way that the contracts ask for it.

Pure: nothing here reads a database. What is erased, withheld or does not match is not in what is given, and
a view that needs it says so instead of guessing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final, Protocol
from uuid import UUID

from audit import actors, canonical, chain, traces
from audit.events import Kind
from audit.traces import Trace

DECISIONS: Final[Mapping[str, str]] = {"ACCEPT": "allow", "ESCALATE": "require_approval", "REJECT": "deny"}
ALLOW: Final = "allow"
_SECOND_MS: Final = 1000


# Who wrote a version of a fact, and when, by its path and number: as its entry says.
Writes = Mapping[tuple[str, int], tuple[str, str]]


class NotThereError(Exception):
    """The flow has nothing of what the contract shows; the message says what, or why it cannot be shown."""


class Entry(Protocol):
    """An entry, decoded."""

    @property
    def seq(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def at(self) -> str: ...
    @property
    def actor(self) -> str: ...
    @property
    def payload(self) -> Mapping[str, Any]: ...


class Opened(Protocol):
    """What is behind a commitment; None where it was erased."""

    @property
    def body(self) -> bytes | None: ...


class Kept(Protocol):
    """What is kept of a flow, as `audit.packs.contents.Contents` has it, too."""

    @property
    def tenant(self) -> str: ...
    @property
    def dfid(self) -> UUID: ...
    @property
    def entries(self) -> Sequence[Entry]: ...
    @property
    def payloads(self) -> Mapping[str, Opened]: ...
    @property
    def objects(self) -> Mapping[str, bytes]: ...
    @property
    def absent(self) -> Mapping[str, str]: ...
    @property
    def writes(self) -> Writes: ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which of several things of a flow: the one with this id, and the part of it; empty for the newest."""

    id: str = ""
    part: str = ""


class Flow:
    """The flow that a contract is made of."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.dfid = str(kept.dfid)

    def of(self, *kinds: Kind) -> list[Entry]:
        """The entries of these kinds, oldest first."""
        return [entry for entry in self.kept.entries if entry.kind in kinds]

    @cached_property
    def opened(self) -> Mapping[str, Any]:
        """The payload of the first entry."""
        found = self.of(Kind.FLOW_OPENED)
        return found[0].payload if found else {}

    @property
    def agent_id(self) -> str:
        """The agent whose flow it is."""
        return str(self.opened.get("agent_id", ""))

    @property
    def agent(self) -> str:
        """The agent, as the ledger names who acts."""
        return actors.agent(self.agent_id)

    @property
    def instance(self) -> str:
        """The agent at work in this flow."""
        return f"{self.agent}#{self.dfid}"

    @property
    def environment(self) -> str | None:
        """Where the agent says that it runs; None where it says nothing."""
        return self.opened.get("environment") or None

    @property
    def trace_id(self) -> str:
        """That of the trace that the agent sent; without one, the digits of the DFID."""
        return self._trace.trace_id

    @property
    def span_id(self) -> str | None:
        """The agent's own span in that trace."""
        return self._trace.span_id or None

    @property
    def _trace(self) -> Trace:
        return traces.of_flow(self.dfid, self.opened)

    @property
    def writes(self) -> Writes:
        """Who wrote the facts that its contexts hold, and when."""
        return self.kept.writes

    def event_id(self, entry: Entry) -> str:
        """The place of an entry, as `ledger_event` takes it."""
        return f"{self.dfid}:{entry.seq}"

    def snapshot_uri(self, commitment: object) -> str | None:
        """Where the bytes behind a commitment are kept; None without one."""
        return f"/api/v1/audit/flows/{self.dfid}/evidence.zip#{commitment}" if commitment else None

    def find(self, digest: object) -> Mapping[str, Any] | None:
        """The document with this digest; None where there is none to show."""
        if digest not in self._found:
            self._found[digest] = self._decoded(str(digest))
        return self._found[digest]

    @cached_property
    def _found(self) -> dict[object, Mapping[str, Any] | None]:
        """Documents by digest, decoded once: a view reads the rules and the verdict many times."""
        return {}

    def _decoded(self, digest: str) -> Mapping[str, Any] | None:
        body = self.kept.objects.get(digest)
        if body is None:
            return None
        try:
            found = canonical.decode(body)
        except canonical.CanonicalError:
            return None
        return found if isinstance(found, dict) else None

    def document(self, digest: object, what: str) -> Mapping[str, Any]:
        """The document with this digest. Raises NotThereError where it cannot be shown."""
        found = self.find(digest)
        if found is None:
            why = self.kept.absent.get(str(digest), "no longer stored")
            raise NotThereError(f"The {what} cannot be shown: {why}.")
        return found

    def behind(self, commitment: object) -> tuple[Any] | None:
        """The value behind a commitment, alone in a tuple; None where it was erased or does not match."""
        held = self.kept.payloads.get(str(commitment))
        if held is None or held.body is None:
            return None
        try:
            return (canonical.decode(held.body),)
        except canonical.CanonicalError:
            return None

    @cached_property
    def judgements(self) -> list["Judged"]:
        """The proposals with their verdicts, oldest first."""
        verdicts = {entry.payload.get("proposal_id"): entry for entry in self.of(Kind.VERDICT_GIVEN)}
        return [
            Judged(self, entry, verdicts[entry.payload.get("proposal_id")])
            for entry in self.of(Kind.PROPOSAL_SUBMITTED)
            if entry.payload.get("proposal_id") in verdicts
        ]

    def judged(self, wanted: Wanted) -> "Judged":
        """The verdict on a proposal: of this id, of the intent or escalation of this id, or the newest."""
        found = [each for each in self.judgements if not wanted.id or wanted.id in self._about(each)]
        if not found:
            if self.judgements:
                raise NotThereError("No verdict of this flow is known by this id.")
            raise NotThereError("Nothing was proposed in this flow, so there is no verdict.")
        return found[-1]

    def _about(self, judged: "Judged") -> set[object]:
        """The ids under which a verdict is known."""
        name = judged.proposal_id
        intents = {
            e.payload.get("intent_id")
            for e in self.of(Kind.INTENT_CREATED)
            if e.payload.get("proposal_id") == name
        }
        escalations = {
            e.payload.get("escalation_id")
            for e in self.of(Kind.ESCALATION_OPENED)
            if self.judged_before(e) is judged
        }
        return {name, judged.decision_id or name, *intents, *escalations}

    def judged_before(self, entry: Entry) -> "Judged | None":
        """The newest verdict that stands before an entry."""
        return next((each for each in reversed(self.judgements) if each.verdict.seq < entry.seq), None)

    def judged_on(self, context_ref: object) -> "Judged | None":
        """The newest verdict on a proposal that was made on this context."""
        found = (e for e in reversed(self.judgements) if e.proposal.payload.get("context_ref") == context_ref)
        return next(found, None)

    def judged_for(self, intent_id: object) -> "Judged":
        """The verdict that an intent follows from."""
        return self.judged(Wanted(str(intent_id)))

    def attempts(self, wanted: Wanted) -> list[Entry]:
        """The beginnings of calls: all, or those of an intent or a proposal, or one by its number."""
        intents = {
            e.payload.get("intent_id")
            for e in self.of(Kind.INTENT_CREATED)
            if wanted.id in ("", e.payload.get("intent_id"), e.payload.get("proposal_id"))
        }
        return [
            e
            for e in self.of(Kind.ATTEMPT_STARTED)
            if e.payload.get("intent_id") in intents and wanted.part in ("", str(e.payload.get("number")))
        ]

    def answer_to(self, attempt: Entry) -> Entry | None:
        """The newest entry that says how a call ended."""
        key = _call(attempt)
        ends = self.of(Kind.ATTEMPT_FINISHED, Kind.ATTEMPT_REPORTED_LATE)
        return next((e for e in reversed(ends) if _call(e) == key), None)

    def world_version(self, context_ref: object) -> str | None:
        """The digest of which version of each fact a context, or the evidence in its place, holds."""
        found = self.find(context_ref)
        if found is None:
            return None
        listed = found.get("facts")
        versions = (
            {fact["path"]: fact["version"] for fact in listed}
            if isinstance(listed, list)
            else found.get("versions", {})
        )
        return digest_of(versions)

    def compiler_of(self, context_ref: object) -> str | None:
        """The version of what compiled a context; None where its entry names none."""
        said = (e.payload for e in self.of(Kind.CONTEXT_COMPILED) if e.payload["context_ref"] == context_ref)
        return next((str(each["compiler_version"]) for each in said if each.get("compiler_version")), None)

    def source_labels(self) -> list[str]:
        """Where the agent says that what it used came from."""
        named = (label for e in self.of(Kind.STEP_REPORTED) for label in e.payload.get("source_labels", ()))
        return list(dict.fromkeys(named))


@dataclass(frozen=True, slots=True)
class Judged:
    """A proposal and the verdict on it."""

    flow: Flow
    proposal: Entry
    verdict: Entry

    @property
    def proposal_id(self) -> str:
        """The id of the proposal; the decision on it has the same."""
        return str(self.proposal.payload["proposal_id"])

    @property
    def request_hash(self) -> str:
        """The digest of the proposal, which every contract of it carries."""
        return str(self.proposal.payload["proposal_digest"])

    @property
    def bundle_hash(self) -> str:
        """The digest of the manifest and the kind in force."""
        return str(self.verdict.payload["policy_bundle_hash"])

    @property
    def name(self) -> str:
        """The policy kind: what was to be done."""
        return str(self.proposal.payload["policy_kind"])

    @property
    def decision(self) -> str:
        """The verdict as other designs name it."""
        return DECISIONS[str(self.verdict.payload["verdict"])]

    @property
    def asked(self) -> Mapping[str, Any]:
        """The proposal as it was judged."""
        return self.flow.document(self.request_hash, "proposal")

    @property
    def facts(self) -> Mapping[str, Any]:
        """The facts that the gate was given."""
        given = self.flow.document(self.verdict.payload["input_digest"], "input of the verdict")
        return dict(given["facts"])

    @property
    def decision_id(self) -> str | None:
        """The decision package that the proposal names; None without one, and where its words are erased."""
        asked = self.flow.find(self.request_hash) or {}
        return str(asked["decision_id"]) if asked.get("decision_id") else None

    @property
    def answer(self) -> Mapping[str, Any]:
        """The whole verdict."""
        return self.flow.document(self.verdict.payload["verdict_digest"], "verdict")

    @property
    def kind(self) -> Mapping[str, Any]:
        """The policy kind in force; empty where there was none."""
        return self.flow.document(self.bundle_hash, "rules")["kind"] or {}

    @property
    def manifest(self) -> Mapping[str, Any]:
        """The manifest in force; empty where there was none."""
        return self.flow.document(self.bundle_hash, "rules")["manifest"] or {}

    @property
    def findings(self) -> list[Mapping[str, Any]]:
        """What the checks found, but for what passed."""
        return [finding for finding in self.answer["findings"] if finding["outcome"] != "PASS"]

    def left(self, name: str) -> int | None:
        """What the cap on `tokens` or `tool_calls` leaves to the flow; None without a cap."""
        compute = self.facts.get("compute") or {}
        cap = compute.get(f"{name}_cap")
        return None if cap is None else int(cap) - int(compute[f"{name}_used"])

    def escalations(self) -> list[Entry]:
        """The escalations that this verdict, or the call that followed, led to."""
        return [e for e in self.flow.of(Kind.ESCALATION_OPENED) if self.flow.judged_before(e) is self]

    def bounds(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """All bounds of the kind, each with its group: ids are unique only within one."""
        for group in ("constraints", "limits", "rules"):
            yield from ((group, bound) for bound in self.kind.get(group, ()))

    def names(self) -> Iterator[str]:
        """The ids of all bounds of the kind."""
        return (str(bound["id"]) for _, bound in self.bounds())


def _call(entry: Entry) -> tuple[object, object]:
    return entry.payload.get("intent_id"), entry.payload.get("number")


def digest_of(value: object) -> str:
    """SHA-256 of the canonical JSON of a value."""
    return canonical.digest(canonical.encode(value))


def dollars(micros: object) -> str:
    """Millionths of a dollar as a decimal text."""
    whole, rest = divmod(abs(int(str(micros))), 1_000_000)
    return f"{'-' if int(str(micros)) < 0 else ''}{whole}.{rest:06d}"


def moment(ms: int) -> str:
    """Unix milliseconds as a time of the ledger."""
    return chain.time_text(datetime.fromtimestamp(ms / _SECOND_MS, UTC))


def milliseconds(since: str, until: str) -> int:
    """How long it was between two times of the ledger."""
    span = datetime.fromisoformat(until) - datetime.fromisoformat(since)
    return round(span.total_seconds() * _SECOND_MS)


def duration(ms: int) -> str:
    """Milliseconds as a duration of ISO 8601, in seconds."""
    whole, rest = divmod(max(ms, 0), _SECOND_MS)
    return f"PT{whole}.{rest:03d}S" if rest else f"PT{whole}S"


def calibration_of(judged: Judged) -> str | None:
    """Which calibration map was asked about the stated confidence; None where none was."""
    used = judged.answer.get("calibrated")
    return None if used is None else f"isotonic map {used['calibration']}, {used['calibration_digest']}"
