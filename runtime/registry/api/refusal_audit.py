"""Refusals of identified callers go to their ledger stream."""

import logging
from http import HTTPStatus

from django.db import DatabaseError
from django.http import HttpRequest

from runtime.contracts.problem import Problem
from runtime.core import refusals, transactions
from runtime.registry.api import auth

_log = logging.getLogger(__name__)


def note(request: HttpRequest, problem: Problem) -> None:
    """Record a refusal. What may succeed when repeated is none, and an unknown caller has no stream."""
    caller = auth.caller_of(request)
    refused = HTTPStatus.BAD_REQUEST <= problem.status < HTTPStatus.INTERNAL_SERVER_ERROR
    if caller is None or problem.retriable or not refused or problem.status == HTTPStatus.UNAUTHORIZED:
        return
    try:
        refusals.record_refusal(
            tenant=caller.tenant,
            stream=caller.stream,
            code=problem.code,
            path=request.path,
            detail=problem.detail,
        )
    except (DatabaseError, transactions.BusyError) as error:
        # Nothing was changed by the refused call, so nothing is left unrecorded that has happened.
        _log.warning("a refusal could not be recorded: %s", error)
