"""What the status of an answer says about the call: refused for now, refused for good, or nobody knows.

One table for every call that has an effect, forward or undoing. What never reached a target has no status:
nothing was sent, so it is refused for now.
"""

from collections.abc import Collection

from runtime.contracts.receipt import FailureClass

# By their definitions the request was not treated: too early, too many. A target may declare others.
REFUSALS = frozenset({425, 429})
# Somebody on the way gave up waiting: the target may have had the call, and done it.
GAVE_UP = frozenset({408, 499, 504})
_DONE, _REFUSED = 2, 4


def class_of(status: int, *, refuses: Collection[int] = ()) -> FailureClass | None:
    """The class of an answer with this status; None for a 2xx, whose body must then be a readable receipt.

    `refuses` are the statuses by which the target says that it has not done what it was asked. Any other
    status outside 2xx and 4xx may come from a proxy, from a crash after the booking, or point to the result:
    it leaves open whether the call took effect.
    """
    if status in REFUSALS or status in refuses:
        return FailureClass.TRANSIENT
    if status // 100 == _DONE:
        return None
    if status in GAVE_UP or status // 100 != _REFUSED:
        return FailureClass.UNKNOWN
    return FailureClass.TERMINAL
