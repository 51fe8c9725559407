"""`/api/v1/audit/`: who may read it, and that its proofs prove what they say."""

import base64
import io
import json
from datetime import UTC, datetime, timedelta
from itertools import combinations_with_replacement
from typing import Any
from zipfile import ZipFile

import pytest
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.test import Client, RequestFactory

from audit import actors, events, ledger, signing
from audit.access.readers import Reader, reader_of
from audit.models import Checkpoint, LedgerEntry, Tile, Tree
from audit.sealing import merkle, notes, proofs
from runtime.contracts.problem import ProblemError
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock
from runtime.epochs.models import Epoch
from runtime.maintenance.services import sealing
from runtime.registry.api import auth
from runtime.registry.services import credentials
from tests.support import api_client, factories

CALLS = [
    "/audit/checkpoints",
    "/audit/checkpoints/latest",
    "/audit/proofs/inclusion?stream=agent:trader&seq=1",
    "/audit/proofs/consistency?from=0&to=1",
    "/audit/keys",
]
DFID = "01890000-0000-7000-8000-000000000000"
EVIDENCE = f"/audit/flows/{DFID}/evidence.zip"


@pytest.fixture
def auditor(desk: None) -> api_client.Caller:
    """A caller with an auditor's key, before anything is sealed."""
    return api_client.Caller(api_client.auditor_key())


@pytest.fixture
def reader(auditor: api_client.Caller) -> api_client.Caller:
    """The same after everything was sealed."""
    sealing.seal_now()
    return auditor


def size() -> int:
    newest = proofs.latest()
    assert newest is not None
    return newest.checkpoint.size


def signed_in(account: User) -> api_client.Caller:
    caller = api_client.Caller()
    caller.client.force_login(account)
    return caller


def refusals(stream: str) -> list[str]:
    rows = LedgerEntry.objects.filter(stream=stream, kind="request:refused").order_by("seq")
    return [row.payload["code"] for row in rows]


@pytest.mark.parametrize("path", CALLS)
def test_opens_to_an_auditors_key_and_to_nobody_without_one(reader: api_client.Caller, path: str) -> None:
    assert reader.get(path).status == 200
    for token in ("", "x", "auk_0123456789abcdef." + "A" * 43):
        answer = api_client.Caller(token).get(path)
        answer.problem(401, "UNAUTHENTICATED")
        assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("path", [*CALLS, EVIDENCE])
def test_refuses_the_credentials_of_others(reader: api_client.Caller, path: str) -> None:
    for token in (api_client.agent_key(), api_client.feed_key(), api_client.session().token):
        problem = api_client.Caller(token).get(path).problem(403, "UNAUTHORIZED")
        assert problem["detail"] == "Reading the audit API requires an auditor's key."
    assert refusals("agent:trader") == ["UNAUTHORIZED", "UNAUTHORIZED"]
    assert refusals("feed:prices") == ["UNAUTHORIZED"]


def test_a_revoked_key_opens_nothing(reader: api_client.Caller) -> None:
    credentials.revoke_key(key_id=reader.token.partition(".")[0], actor="system")
    reader.get("/audit/keys").problem(401, "UNAUTHENTICATED")


@pytest.mark.parametrize("role", ["operator", "senior", "admin", "auditor"])
def test_opens_to_signed_in_users_of_any_role(reader: api_client.Caller, role: str) -> None:
    caller = signed_in(factories.user("someone", role))
    for path in CALLS:
        assert caller.get(path).status == 200


def test_refuses_users_without_a_role_and_records_it(reader: api_client.Caller) -> None:
    nobody = User.objects.create(username="nobody")
    signed_in(nobody).get("/audit/keys").problem(403, "ROLE_MISSING")
    assert refusals(actors.user(nobody.pk)) == ["ROLE_MISSING"]


def test_refuses_users_who_were_deactivated(reader: api_client.Caller) -> None:
    gone = factories.user("gone", "auditor")
    caller = signed_in(gone)
    User.objects.filter(pk=gone.pk).update(is_active=False)
    caller.get("/audit/keys").problem(401, "UNAUTHENTICATED")


@pytest.mark.parametrize("header", ["", "Bearer ", "Bearer x", "Basic dTpw"])
def test_asks_no_browser_session_where_a_key_was_sent(reader: api_client.Caller, header: str) -> None:
    caller = signed_in(factories.user("aud", "auditor"))
    caller.get("/audit/keys", {"Authorization": header}).problem(401, "UNAUTHENTICATED")
    caller.token = api_client.agent_key()
    caller.get("/audit/keys").problem(403, "UNAUTHORIZED")


def test_takes_a_browser_session_nowhere_else(desk: None) -> None:
    caller = signed_in(factories.user("admin", "admin"))
    for path in ("/schema/policy", "/state/facts/price.AAPL", "/events"):
        caller.get(path).problem(401, "UNAUTHENTICATED")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_only_reads(reader: api_client.Caller, method: str) -> None:
    for path in (*CALLS, EVIDENCE):
        reader.call(method, path, {}).problem(405, "METHOD_NOT_ALLOWED")
    with pytest.raises(ProblemError) as refused:
        auth.AuditorAccess()(RequestFactory().generic(method, "/"))
    assert refused.value.problem.code == ProblemCode.METHOD_NOT_ALLOWED


def test_a_call_that_forgot_its_guard_fails_loudly() -> None:
    with pytest.raises(TypeError):
        reader_of(HttpRequest())


def test_shows_the_newest_checkpoint_as_it_was_signed(auditor: api_client.Caller) -> None:
    auditor.get("/audit/checkpoints/latest").problem(404, "NOT_FOUND")
    sealing.seal_now()
    answer = auditor.get("/audit/checkpoints/latest")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    signed = notes.read(answer.content.decode())
    signature = signed.signature_by(signing.signer().public_key)
    assert signature is not None
    assert signing.is_signed(signed.checkpoint.text().encode(), signature, signing.signer().public_key)
    assert signed.checkpoint.size == LedgerEntry.objects.count()


def test_lists_all_checkpoints_page_by_page_so_that_their_chain_can_be_followed(
    auditor: api_client.Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert auditor.get("/audit/checkpoints").ok() == {"checkpoints": [], "next": None}
    began = clock.now()
    for minute in range(5):
        monkeypatch.setattr(clock, "now", lambda minute=minute: began + timedelta(minutes=minute))
        if minute % 2:
            factories.write("price.AAPL", minute)
        sealing.seal_now()
    signed = list(Checkpoint.objects.order_by("id").values_list("note", flat=True))
    assert len(signed) >= 5
    assert auditor.get("/audit/checkpoints").ok() == {"checkpoints": signed, "next": None}
    told: list[str] = []
    after: int | None = 0
    while after is not None:
        page = auditor.get(f"/audit/checkpoints?limit=2&after={after}").ok()
        assert len(page["checkpoints"]) <= 2
        told, after = [*told, *page["checkpoints"]], page["next"]
    assert told == signed
    sizes = [notes.read(note).checkpoint.size for note in signed]
    middle = auditor.get(f"/audit/checkpoints?from={sizes[1]}&to={sizes[-2]}").ok()["checkpoints"]
    assert middle == [note for note, size in zip(signed, sizes, strict=True) if sizes[1] <= size <= sizes[-2]]


@pytest.mark.parametrize("asked", ["limit=0", "limit=1001", "after=-1", "from=x", "to=-1"])
def test_a_page_of_checkpoints_that_cannot_be_is_refused(auditor: api_client.Caller, asked: str) -> None:
    assert auditor.get(f"/audit/checkpoints?{asked}").status == 422


def test_lists_the_keys_that_signed(auditor: api_client.Caller) -> None:
    assert auditor.get("/audit/keys").ok() == {"origin": None, "keys": []}
    sealing.seal_now()
    own = signing.signer()
    origin = Tree.objects.get().origin
    since = LedgerEntry.objects.get(kind="signing_key:begun").at.astimezone(UTC)
    assert auditor.get("/audit/keys").ok() == {
        "origin": origin,
        "keys": [
            {
                "key_id": own.key_id,
                "public_key": base64.b64encode(own.public_key).decode(),
                "from": f"{since:%Y-%m-%dT%H:%M:%S.%fZ}",
                "until": None,
                "verifier_key": notes.verifier_key(origin, own.public_key),
            }
        ],
    }


def verified(proof: Any) -> bool:
    entry = bytes.fromhex(proof["entry_hash"])
    assert bytes.fromhex(proof["leaf_hash"]) == merkle.hash_leaf(entry)
    return merkle.verify_inclusion(
        leaf_hash=merkle.hash_leaf(entry),
        index=proof["leaf_index"],
        size=proof["tree_size"],
        proof=[bytes.fromhex(each) for each in proof["hashes"]],
        root=bytes.fromhex(proof["root_hash"]),
    )


def test_proves_every_entry_under_the_newest_checkpoint(reader: api_client.Caller) -> None:
    newest = proofs.latest()
    assert newest is not None
    indexes = set()
    for entry in LedgerEntry.objects.order_by("id"):
        proof = reader.get(f"/audit/proofs/inclusion?stream={entry.stream}&seq={entry.seq}").ok()
        assert (proof["stream"], proof["seq"]) == (entry.stream, entry.seq)
        assert proof["entry_hash"] == bytes(entry.hash).hex()
        assert proof["checkpoint"] == newest.text
        assert bytes.fromhex(proof["root_hash"]) == newest.checkpoint.root
        assert verified(proof)
        indexes.add(proof["leaf_index"])
    assert indexes == set(range(newest.checkpoint.size))


def test_proves_an_entry_under_a_smaller_tree(reader: api_client.Caller) -> None:
    asked = "/audit/proofs/inclusion?stream=agent:trader&seq=1"
    index = reader.get(asked).ok()["leaf_index"]
    for smaller in range(index + 1, size() + 1):
        proof = reader.get(f"{asked}&size={smaller}").ok()
        root = proofs.root_at(smaller)
        assert root is not None
        assert (proof["tree_size"], proof["root_hash"]) == (smaller, root.hex())
        assert verified(proof)


def test_proves_nothing_under_a_tree_without_the_entry(reader: api_client.Caller) -> None:
    asked = "/audit/proofs/inclusion?stream=agent:trader&seq=1"
    index = reader.get(asked).ok()["leaf_index"]
    for wrong in (-1, 0, index, size() + 1, 2**53 - 1, 2**63, 10**30):
        reader.get(f"{asked}&size={wrong}").problem(400, "TREE_SIZE_UNKNOWN")


@pytest.mark.parametrize(
    "asked",
    [
        "stream=agent:trader&seq=9007199254740991",
        "stream=agent:nobody&seq=1",
        "stream=agent:trader%00&seq=1",
        "stream=agent:foreign&seq=1",
    ],
)
def test_an_unknown_entry_is_not_found(auditor: api_client.Caller, asked: str) -> None:
    event = events.AgentResumed(agent_id="foreign", reason="x")
    at = datetime(2026, 11, 23, tzinfo=UTC)
    ledger.append_to(tenant="other", stream="agent:foreign", actor=actors.SYSTEM, at=at, events=[event])
    sealing.seal_now()
    auditor.get(f"/audit/proofs/inclusion?{asked}").problem(404, "NOT_FOUND")


@pytest.mark.parametrize(
    "asked",
    [
        "inclusion?stream=agent:trader",
        "inclusion?seq=1",
        "inclusion?stream=&seq=1",
        "inclusion?stream=agent:trader&seq=0",
        "inclusion?stream=agent:trader&seq=one",
        "inclusion?stream=agent:trader&seq=1&size=all",
        "consistency?from=1",
        "consistency?from=a&to=b",
    ],
)
def test_a_parameter_of_another_form_is_named(reader: api_client.Caller, asked: str) -> None:
    assert reader.get(f"/audit/proofs/{asked}").problem(422, "INVALID_REQUEST")["violations"]


def test_an_entry_is_not_sealed_before_the_next_checkpoint(auditor: api_client.Caller) -> None:
    asked = "/audit/proofs/inclusion?stream=auditor:regulator&seq="
    assert auditor.get(f"{asked}1").problem(409, "NOT_SEALED")["retriable"] is True
    sealing.seal_now()
    auditor.get(f"{asked}1").ok()
    api_client.auditor_key()
    auditor.get(f"{asked}2").problem(409, "NOT_SEALED")
    auditor.get(f"{asked}2&size=1").problem(409, "NOT_SEALED")
    sealing.seal_now()
    auditor.get(f"{asked}2").ok()
    assert refusals("auditor:regulator") == []


def test_proves_that_each_tree_begins_with_each_smaller_one(reader: api_client.Caller) -> None:
    for smaller, larger in combinations_with_replacement(range(size() + 1), 2):
        proof = reader.get(f"/audit/proofs/consistency?from={smaller}&to={larger}").ok()
        assert (proof["from"], proof["to"]) == (smaller, larger)
        roots = [bytes.fromhex(proof[name]) for name in ("from_root", "to_root")]
        assert roots == [proofs.root_at(smaller), proofs.root_at(larger)]
        assert merkle.verify_consistency(
            from_size=smaller,
            to_size=larger,
            from_root=roots[0],
            to_root=roots[1],
            proof=[bytes.fromhex(each) for each in proof["hashes"]],
        )


def test_the_empty_tree_begins_every_tree(auditor: api_client.Caller) -> None:
    asked = "/audit/proofs/consistency?from=0&to=0"
    empty = {"from": 0, "to": 0, "from_root": merkle.EMPTY_ROOT.hex(), "to_root": merkle.EMPTY_ROOT.hex()}
    assert auditor.get(asked).ok() == {**empty, "hashes": []}
    sealing.seal_now()
    assert auditor.get(asked).ok() == {**empty, "hashes": []}
    assert auditor.get(f"/audit/proofs/consistency?from=0&to={size()}").ok()["hashes"] == []


def test_refuses_sizes_that_no_tree_has(reader: api_client.Caller) -> None:
    for first, second in ((2, 1), (-1, 1), (0, -1), (1, size() + 1), (0, 10**30), (-(10**30), 0)):
        reader.get(f"/audit/proofs/consistency?from={first}&to={second}").problem(400, "TREE_SIZE_UNKNOWN")


def test_fails_where_hashes_of_the_tree_are_missing_until_they_are_made_anew(
    reader: api_client.Caller,
) -> None:
    Tile.objects.all().delete()
    asked = ("/audit/proofs/inclusion?stream=agent:trader&seq=1", "/audit/proofs/consistency?from=1&to=2")
    for path in asked:
        assert reader.get(path).problem(500, "INTERNAL_ERROR")["retriable"] is True
    api_client.auditor_key()
    sealing.seal_now()
    for path in asked:
        reader.get(path).ok()


def test_gives_the_evidence_pack_of_a_flow(auditor: api_client.Caller) -> None:
    dfid = api_client.session().open_flow()
    answer = auditor.get(f"/audit/flows/{dfid}/evidence.zip")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/zip"
    assert answer.headers["Content-Disposition"] == f'attachment; filename="evidence-{dfid}.zip"'
    with ZipFile(io.BytesIO(answer.content)) as pack:
        assert json.loads(pack.read("manifest.json"))["dfid"] == dfid
        entries = [json.loads(line) for line in pack.read("entries.jsonl").splitlines()]
    newest = LedgerEntry.objects.filter(stream=dfid).order_by("seq").last()
    assert newest is not None
    assert [(each["stream"], each["seq"]) for each in entries if each["stream"] == dfid][-1] == (
        dfid,
        newest.seq,
    )


def test_gives_no_pack_of_a_flow_that_is_not_there(reader: api_client.Caller) -> None:
    reader.get(EVIDENCE).problem(404, "FLOW_NOT_FOUND")
    reader.get("/audit/flows/trader/evidence.zip").problem(404, "NOT_FOUND")


def test_gives_no_pack_before_the_flow_is_sealed(auditor: api_client.Caller) -> None:
    dfid = api_client.session().open_flow()
    # Nothing is sealed while a restored backup waits for an admin.
    Epoch.objects.update(restored_at=clock.now())
    auditor.get(f"/audit/flows/{dfid}/evidence.zip").problem(409, "NOT_SEALED")


def test_the_tenant_is_that_of_the_key_and_of_the_account(reader: api_client.Caller) -> None:
    request = RequestFactory().get("/", headers={"Authorization": f"Bearer {reader.token}"})
    assert auth.AuditorAccess()(request) == Reader(tenant="default", name="auditor:regulator")
    request = RequestFactory().get("/")
    request.user = factories.user("aud", "auditor")
    assert auth.AuditorAccess()(request) == Reader(tenant="default", name=actors.user(request.user.pk))


def test_needs_no_csrf_token_and_sets_no_cookie(reader: api_client.Caller) -> None:
    reader.client = Client(enforce_csrf_checks=True)
    reader.get("/audit/keys").ok()
    assert not reader.client.cookies
