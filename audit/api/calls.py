"""Checkpoints, proofs and keys: `GET /api/v1/audit/...`.

A stranger who keeps checkpoints from here can tell later whether the ledger was changed: an entry that is no
longer in the tree, or a tree that does not begin with the one that was kept.
"""

import base64
from collections.abc import Iterable
from typing import Annotated, Any, Final

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router
from pydantic import WithJsonSchema

from audit import canonical, chain
from audit.access import readers
from audit.api import answers
from audit.api.refusals import RefusedError, Why
from audit.models import Leaf, LedgerEntry, Tree
from audit.sealing import keys, merkle, notes, proofs
from audit.sealing.tiles import TileError

router = Router(tags=["Audit"])

JSON: Final = "application/json"
MAX_NUMBER: Final = canonical.MAX_SAFE_INTEGER
_LONGEST_STREAM: Final = 200
_PAGE: Final = 200
_LARGEST_PAGE: Final = 1000
_NUL = "\x00"
# The sealer makes them anew from the entries, so the same call may succeed a little later.
_DAMAGED: Final = "hashes of the tree are missing"
# Said in the document, checked in the call: which sizes there are depends on the tree.
_SIZE: Final = WithJsonSchema({"type": "integer", "minimum": 0, "maximum": MAX_NUMBER})

_WHO: Final = {
    401: "No valid key was sent, and nobody is signed in.",
    403: "The key, token or account does not allow it: only an auditor's key, or a user with a role, does.",
}
_PARAMETERS: Final = {422: "A parameter is missing or not of its form."}


def describe(
    refusals: dict[int, str], *, media_type: str = "", schema: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The responses of a call: how it is refused, and what it answers where that is not a model."""
    responses: dict[int, Any] = {
        status: {"description": words} for status, words in (_WHO | refusals).items()
    }
    if schema is not None:
        responses[200] = {"content": {media_type: {"schema": schema}}}
    return {"responses": responses}


def canonical_json(document: Any) -> HttpResponse:
    """The answer of a call that answers a document and no model: canonical JSON (RFC 8785)."""
    return HttpResponse(canonical.encode(document), content_type=JSON)


@router.get(
    "/checkpoints/latest",
    openapi_extra=describe(
        {404: "Nothing has been sealed yet."},
        media_type="text/plain",
        schema={"type": "string", "description": "A signed note.", "examples": [answers.NOTE]},
    ),
)
def latest_checkpoint(request: HttpRequest) -> HttpResponse:
    """The newest checkpoint: size and root of the tree over all entries, as a signed note (C2SP)."""
    readers.reader_of(request)
    newest = proofs.latest()
    if newest is None:
        raise RefusedError(Why.UNKNOWN, "There is no checkpoint yet. The first is signed within seconds.")
    return HttpResponse(newest.text, content_type="text/plain; charset=utf-8")


@router.get("/checkpoints", response=answers.Checkpoints, openapi_extra=describe(_PARAMETERS))
def list_checkpoints(
    request: HttpRequest,
    from_size: Annotated[int, Query(alias="from", ge=0, le=MAX_NUMBER)] = 0,
    to_size: Annotated[int, Query(alias="to", ge=0, le=MAX_NUMBER)] = MAX_NUMBER,
    after: Annotated[int, Query(ge=0, le=MAX_NUMBER)] = 0,
    limit: Annotated[int, Query(ge=1, le=_LARGEST_PAGE)] = _PAGE,
) -> HttpResponse:
    """The checkpoints over `from` to `to` entries, oldest first, as they were signed."""
    readers.reader_of(request)
    page = proofs.list_signed(from_size=from_size, to_size=to_size, after=after, limit=limit)
    return _json(answers.Checkpoints(checkpoints=page.notes, next=page.next))


@router.get(
    "/proofs/inclusion",
    response=answers.InclusionProof,
    openapi_extra=describe(
        {
            400: "The tree has not as many leaves, or the entry is not among them.",
            404: "No entry has this stream and number.",
            409: "The entry is not sealed yet. It is sealed within seconds.",
            **_PARAMETERS,
        }
    ),
)
def prove_inclusion(
    request: HttpRequest,
    stream: Annotated[str, Query(min_length=1, max_length=_LONGEST_STREAM)],
    seq: Annotated[int, Query(ge=1, le=MAX_NUMBER)],
    size: Annotated[int | None, _SIZE] = None,
) -> HttpResponse:
    """That an entry is in the tree: under the newest checkpoint, or under a smaller tree of `size` leaves."""
    tenant = readers.reader_of(request).tenant
    entries = LedgerEntry.objects.filter(tenant=tenant, stream=stream, seq=seq).values_list("id", flat=True)
    pk = None if _NUL in stream else entries.first()
    if pk is None:
        raise RefusedError(Why.UNKNOWN, "No entry has this stream and number.")
    newest = proofs.latest()
    index = Leaf.objects.filter(entry_id=pk).values_list("index", flat=True).first()
    if newest is None or index is None or index >= newest.checkpoint.size:
        raise RefusedError(Why.NOT_SEALED, "The entry is not sealed yet. It is sealed within seconds.")
    largest = newest.checkpoint.size
    asked = largest if size is None else size
    if not index < asked <= largest:
        detail = f"Ask for a size from {index + 1}, with which the entry is in the tree, to {largest}."
        raise RefusedError(Why.NO_SUCH_SIZE, detail)
    found = proofs.inclusion(tenant=tenant, stream=stream, seq=seq, size=asked)
    root = proofs.root_at(asked)
    if found is None or root is None:
        raise TileError(_DAMAGED)
    return _json(
        answers.InclusionProof(
            stream=stream,
            seq=seq,
            leaf_index=found.index,
            tree_size=found.size,
            entry_hash=found.entry_hash.hex(),
            leaf_hash=merkle.hash_leaf(found.entry_hash).hex(),
            root_hash=root.hex(),
            hashes=_hex(found.hashes),
            checkpoint=newest.text,
        )
    )


@router.get(
    "/proofs/consistency",
    response=answers.ConsistencyProof,
    by_alias=True,
    openapi_extra=describe(
        {400: "`from` is larger than `to`, or the tree has not as many leaves.", **_PARAMETERS}
    ),
)
def prove_consistency(
    request: HttpRequest,
    from_size: Annotated[int, _SIZE, Query(alias="from")],
    to_size: Annotated[int, _SIZE, Query(alias="to")],
) -> HttpResponse:
    """That the tree of `to` leaves begins with the tree of `from` leaves, as an earlier checkpoint had it."""
    readers.reader_of(request)
    newest = proofs.latest()
    largest = 0 if newest is None else newest.checkpoint.size
    if not 0 <= from_size <= to_size <= largest:
        raise RefusedError(
            Why.NO_SUCH_SIZE, f"`from` and `to` are from 0 to {largest}, and `from` is not the larger one."
        )
    proof = proofs.consistency(from_size=from_size, to_size=to_size)
    from_root, to_root = proofs.root_at(from_size), proofs.root_at(to_size)
    if proof is None or from_root is None or to_root is None:
        raise TileError(_DAMAGED)
    return _json(
        answers.ConsistencyProof(
            from_size=from_size,
            to_size=to_size,
            from_root=from_root.hex(),
            to_root=to_root.hex(),
            hashes=_hex(proof),
        )
    )


@router.get("/keys", response=answers.SigningKeys, by_alias=True, openapi_extra=describe({}))
def list_keys(request: HttpRequest) -> HttpResponse:
    """The public keys that sign checkpoints and decisions, and when the signatures of each count."""
    tenant = readers.reader_of(request).tenant
    origin = Tree.objects.values_list("origin", flat=True).first()
    if origin is None:
        return _json(answers.SigningKeys(origin=None, keys=()))
    shown = tuple(
        answers.SigningKey(
            key_id=key.key_id,
            public_key=base64.b64encode(key.public_key).decode(),
            since=chain.time_text(key.since),
            until=None if key.until is None else chain.time_text(key.until),
            verifier_key=notes.verifier_key(origin, key.public_key),
        )
        for key in keys.known(tenant=tenant)
    )
    return _json(answers.SigningKeys(origin=origin, keys=shown))


def _hex(hashes: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(each.hex() for each in hashes)


def _json(answer: answers.Answer) -> HttpResponse:
    return HttpResponse(answer.model_dump_json(by_alias=True), content_type=JSON)
