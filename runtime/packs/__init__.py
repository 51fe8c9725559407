"""Packs: a file of kinds, targets, resources, guards and agents, checked whole, then written at once."""
