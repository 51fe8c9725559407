"""The record of what identified callers were refused, up to a bound per minute."""

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from audit import canonical, events, ledger
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, transactions

RECORDED_PER_MINUTE = 60
_REMEMBERED = 10_000


def record_refusal(*, tenant: str, stream: str, code: ProblemCode, path: str, detail: str) -> bool:
    """Record that an identified caller was refused; False where its share of the minute is used up.

    Of `detail`, which may quote what was sent, only the digest is kept: it shows later which answer it was.

    The bound keeps a caller in a loop from filling the ledger: the first refusals tell the story.
    """
    at = clock.now()
    if not _shares.take(stream, int(at.timestamp() // 60)):
        return False

    def work() -> None:
        refused = events.RequestRefused(
            code=code, path=path[:200], detail_digest=canonical.digest(detail.encode())
        )
        ledger.append_to(tenant=tenant, stream=stream, actor=stream, at=at, events=[refused])

    transactions.retry_on_conflict(work)
    return True


@dataclass(slots=True)
class _Shares:
    """Refusals recorded per stream in the current minute, in this process."""

    counts: OrderedDict[str, tuple[int, int]] = field(default_factory=OrderedDict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, stream: str, minute: int) -> bool:
        with self.lock:
            known_minute, used = self.counts.pop(stream, (minute, 0))
            used = used if known_minute == minute else 0
            self.counts[stream] = (minute, used + 1)
            if len(self.counts) > _REMEMBERED:
                self.counts.popitem(last=False)
            return used < RECORDED_PER_MINUTE


_shares = _Shares()
