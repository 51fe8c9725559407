"""The reasoning trace of a decision as a signed graph: each node under the digest of what it says."""
