"""What lets strangers check the ledger: one Merkle tree over all entries, and signed checkpoints of it.

`sealer` adds committed entries to the tree and signs; `proofs` answers for an entry, or for two sizes of the
tree; `keys` says whose signatures are valid when. `witnesses` says who gets checkpoints and judges what they
hold, `witness_folder` reads and writes their files. `merkle` and `notes` are pure arithmetic and text.
"""
