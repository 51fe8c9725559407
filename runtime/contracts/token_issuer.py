"""An issuer of tokens that the deployment trusts to say which agent calls."""

from dataclasses import dataclass
from typing import Final

LONGEST_ISSUER: Final = 500
LONGEST_SUBJECT: Final = 255


@dataclass(frozen=True, kw_only=True)
class TrustedIssuer:
    """`keys_at` is where its public keys are: a URL, or the absolute path of a file.

    A token is for `audience`, and was issued at most `max_age_s` seconds ago.
    """

    issuer: str
    audience: str
    keys_at: str
    max_age_s: int
