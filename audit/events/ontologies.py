"""Versions of the ontology."""

from audit.events.base import Event, Kind, Text


class OntologyRegistered(Event):
    kind = Kind.ONTOLOGY_REGISTERED
    ontology: str = "ontology"
    version: str
    digest: str


class OntologyActivated(Event):
    """`solo`: by its own author, the only admin; `replaces`: the version that was active before."""

    kind = Kind.ONTOLOGY_ACTIVATED
    ontology: str = "ontology"
    version: str
    digest: str
    reason: Text = ""
    solo: bool = False
    replaces: str = ""


class OntologyDiscarded(Event):
    """A draft that never becomes active."""

    kind = Kind.ONTOLOGY_DISCARDED
    ontology: str = "ontology"
    version: str
    digest: str
    reason: Text
