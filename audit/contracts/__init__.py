"""The contracts of other designs as views of one flow's entries: the same rows under other names."""
