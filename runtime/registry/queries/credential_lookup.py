"""Keys and sessions by their public id. Whether a secret fits is asked in `services.credentials`."""

from runtime.registry.models import Key, Session


def get_key(*, key_id: str) -> Key | None:
    """The key with its agent and the agent's manifest; None where there is none."""
    return Key.objects.select_related("agent__active_manifest").filter(key_id=key_id).first()


def get_session(*, token_id: str) -> Session | None:
    """The session with its key, its agent and the agent's manifest; None where there is none."""
    return Session.objects.select_related("key", "agent__active_manifest").filter(token_id=token_id).first()
