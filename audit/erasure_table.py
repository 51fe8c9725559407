"""The ledger's own tables: what an erasure empties, and why other texts and bytes stay."""

from typing import Final

from audit.erasure_columns import ColumnTable, OtherColumns

_HASH: Final = "a hash of the chain or of the tree"
_NAME: Final = "a name: tenant, stream, kind, actor, key"

TABLE: Final = ColumnTable(
    others=(
        OtherColumns(
            model="audit.LedgerEntry",
            columns={
                "tenant": _NAME,
                "stream": _NAME,
                "kind": _NAME,
                "actor": _NAME,
                "body": "digests, commitments, codes, ids; the chain is over these bytes, so they stay",
                "prev_hash": _HASH,
                "hash": _HASH,
            },
        ),
        OtherColumns(model="audit.StreamHead", columns={"tenant": _NAME, "stream": _NAME, "hash": _HASH}),
        OtherColumns(
            model="audit.Payload",
            columns={
                "tenant": _NAME,
                "content": "emptied beside this table: the words behind the commitments of a flow",
                "nonce": "a random number, emptied with the words",
                "salt": "emptied beside this table, so that a guess cannot be confirmed",
            },
        ),
        OtherColumns(
            model="audit.ClassKey",
            columns={"wrapped": "a key, encrypted with the key of the installation"},
        ),
        OtherColumns(
            model="audit.DecisionRecord",
            columns={
                "body": "references and hashes, signed and never changed; subjects are ids; once the "
                "words are erased the record is not shown",
                "record_hash": _HASH,
                "prev_hash": _HASH,
                "signature": "a signature",
            },
        ),
        OtherColumns(
            model="audit.RecordTerm", columns={"value": "by what a record is found: subjects, people, rules"}
        ),
        OtherColumns(model="audit.Tree", columns={"origin": "the name of the log"}),
        OtherColumns(model="audit.Tile", columns={"hashes": _HASH}),
        OtherColumns(
            model="audit.Checkpoint", columns={"root": _HASH, "key_id": _NAME, "note": "a signed tree head"}
        ),
        OtherColumns(
            model="audit.HeadPage", columns={"first_tenant": _NAME, "first_stream": _NAME, "lines": _HASH}
        ),
        OtherColumns(
            model="audit.WitnessState",
            columns={
                "name": "a folder or an address",
                "error": "why sending failed",
                "finding": "what differs",
            },
        ),
        OtherColumns(
            model="sessions.Session",
            columns={"session_data": "a browser's session with unsent drafts; gone when it ends"},
        ),
    ),
)
