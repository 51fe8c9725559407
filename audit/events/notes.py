"""What people write to each other. The words are behind a commitment; no rule and no evidence reads them."""

from audit.events.base import Event, Id, Kind, Names, Text


class NoteWritten(Event):
    """A note in the stream of what it is about. `mentions` are people (`user:7`), by whom the text names."""

    kind = Kind.NOTE_WRITTEN
    note_id: Id
    text_commitment: str
    mentions: Names = ()
    escalation_id: Id | None = None


class EscalationTakenOver(Event):
    """Someone took a claim that was live; `former` had it until then (`user:7`). The words are the reason."""

    kind = Kind.ESCALATION_TAKEN_OVER
    note_id: Id
    text_commitment: str
    escalation_id: Id
    former: Text
    mentions: Names = ()


class EscalationHandedOver(Event):
    """Whoever had the claim gave it to `receiver` (`user:7`), with a note."""

    kind = Kind.ESCALATION_HANDED_OVER
    note_id: Id
    text_commitment: str
    escalation_id: Id
    receiver: Text
    mentions: Names = ()


class ShiftHandedOver(Event):
    """A note for whoever works next."""

    kind = Kind.SHIFT_HANDED_OVER
    note_id: Id
    text_commitment: str
    mentions: Names = ()
