"""An event as a message of syslog (RFC 5424), for a SIEM."""

import socket
from functools import cache
from typing import Final

from audit import chain
from runtime.contracts.receiver import EventFormat, SealedEntry
from runtime.outward.services import csv_rows, ocsf
from runtime.outward.services.ocsf_classes import Severity

APP: Final = "dir-console"
_LOG_AUDIT: Final = 13
_FACILITY: Final = 8
_LONGEST_ID: Final = 32
_LONGEST_HOST: Final = 255
_SEVERITIES: Final = {
    Severity.INFORMATIONAL: 6,
    Severity.LOW: 5,
    Severity.MEDIUM: 4,
    Severity.HIGH: 3,
    Severity.CRITICAL: 2,
}


def encode(entry: SealedEntry, form: EventFormat) -> bytes:
    """One message: its kind as the message id, and the event in its form as the text."""
    priority = _LOG_AUDIT * _FACILITY + _SEVERITIES[ocsf.severity(entry)]
    text = csv_rows.encode(entry).rstrip(b"\r\n") if form == EventFormat.CSV else ocsf.encode(entry)
    head = f"<{priority}>1 {chain.time_text(entry.at)} {_host()} {APP} - {entry.kind[:_LONGEST_ID]} - "
    return head.encode() + text


@cache
def _host() -> str:
    """The name of this machine as syslog allows it, without spaces."""
    name = socket.gethostname()
    return "".join(char for char in name if "!" <= char <= "~")[:_LONGEST_HOST] or "-"
