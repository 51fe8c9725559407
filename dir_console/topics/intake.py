"""The process that takes messages from the topics of agents, one after the other, and answers each.

It acknowledges after the commit, so a crash in between brings the message again, and its key finds the answer
that is stored. Any number of these processes may run.
"""

import logging
import os
import secrets
import socket
import threading
import time
from pathlib import Path
from typing import Final

import redis
from django.conf import settings
from django.db import DatabaseError, close_old_connections

from dir_console.topics import messages
from dir_console.topics.agent_api import AgentApi
from dir_console.topics.broker import Broker, Received
from dir_console.topics.messages import Answer
from dir_console.topics.notices import Notices
from dir_console.waiting_line import Turns
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import transactions

# Few, so that the agents take turns.
MESSAGES_EACH: Final = 4
WAIT_MS: Final = 500
UPKEEP_S: Final = 1.0
# Where the database does not respond, nothing else is taken meanwhile either.
PAUSES_S: Final = (0.2, 1.0, 2.0, 5.0)
# A message that was taken so often, and ended each process that took it, is given up.
MOST_DELIVERIES: Final = 5
MOST_TOPICS: Final = 1_000
_AFTER_ERROR_S: Final = 1.0

_log = logging.getLogger(__name__)


class TopicIntake:
    """One consumer of all topics. `stop` may be called by another thread, or by a signal."""

    def __init__(self, client: "redis.Redis", *, alive_file: Path | None = None) -> None:
        # A name of its own: what a dead namesake has taken is reclaimed as anybody else's.
        consumer = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self.broker = Broker(client, consumer=consumer)
        self.notices = Notices(client)
        self.turns = Turns()
        self._api = AgentApi()
        self._alive_file = alive_file
        self._stopping = threading.Event()
        self._agents: set[str] = set()
        self._upkeep_at_s = 0.0

    def stop(self) -> None:
        """End after the message under way. What was taken beyond it is reclaimed by another."""
        self._stopping.set()

    def run(self) -> None:
        """Take messages until stopped. An outage of the broker or of the database ends nothing."""
        while not self._stopping.is_set():
            try:
                self.work_round()
            except redis.ResponseError as error:
                _log.warning("the topics changed at the broker, and are looked for anew: %s", error)
                self._forget_topics()
            except redis.RedisError as error:
                _log.warning("the broker of topics cannot be reached: %s", type(error).__name__)
                self._forget_topics()
            except DatabaseError as error:
                _log.warning("the database did not respond to the topic intake: %s", error)
                close_old_connections()
                self._stopping.wait(_AFTER_ERROR_S)
            except Exception:
                _log.exception("a round of the topic intake failed")
                self._stopping.wait(_AFTER_ERROR_S)
            if self._alive_file is not None:
                self._alive_file.touch()
        self._leave()

    def work_round(self) -> int:
        """Look after the topics where it is due, and answer what came; returns how many were answered."""
        answered = self._look_after_topics()
        if not self._agents:
            self._stopping.wait(WAIT_MS / 1000)
            return answered
        received = self.broker.receive(self._agents, each=MESSAGES_EACH, wait_ms=WAIT_MS)
        for place in range(MESSAGES_EACH):
            for batch in received.values():
                if place < len(batch) and not self._stopping.is_set():
                    answered += self._handle(batch[place], busy=len(received))
        return answered

    def _look_after_topics(self) -> int:
        """Find topics, answer what dead consumers left, send notices, keep bounds: each second."""
        if time.monotonic() < self._upkeep_at_s:
            return 0
        self._upkeep_at_s = time.monotonic() + UPKEEP_S
        found = set(sorted(self.broker.list_agents())[:MOST_TOPICS])
        for agent_id in found - self._agents:
            self.broker.join(agent_id)
        self._agents = found
        answered = 0
        for agent_id in self._agents:
            self.broker.trim(agent_id)
            while not self._stopping.is_set():
                left = self.broker.reclaim(agent_id, idle_ms=settings.DIR_LEASE_S * 1000)
                if left is None:
                    break
                answered += self._handle(left, busy=1)
        self.notices.publish(self._agents)
        transactions.give_back_connection()
        return answered

    def _handle(self, received: Received, *, busy: int) -> int:
        """Answer one message; 0 where it was not, and stays for whoever comes next."""
        answer = self._refuse_crowd(received, busy=busy) or self._answer(received)
        if answer is None:
            return 0
        self.broker.settle(received, answer)
        return 1

    def _answer(self, received: Received) -> Answer | None:
        if received.deliveries > MOST_DELIVERIES:
            _log.error("a message on the topic of %s ended each process that took it", received.agent_id)
            return messages.refusal(
                Problem(
                    code=ProblemCode.INTERNAL_ERROR,
                    detail="The message was given up after several tries. Ask with the same key over HTTP.",
                )
            )
        message = messages.read(received.fields)
        if isinstance(message, Problem):
            return messages.refusal(message)
        began = time.monotonic()
        answer = self._api.propose(message, agent_id=received.agent_id)
        for pause_s in PAUSES_S:
            if not messages.is_from_outage(answer):
                break
            if self._stopping.wait(pause_s):
                return None
            answer = self._api.propose(message, agent_id=received.agent_id)
        self.turns.note_turn(time.monotonic() - began)
        return answer

    def _refuse_crowd(self, received: Received, *, busy: int) -> Answer | None:
        """429 while more wait on this topic than can be worked off in DIR_LINE_S: nothing was done.

        The oldest are refused, since only what this consumer has taken is nobody else's.
        """
        waiting = self.broker.count_waiting(received.agent_id)
        share = 1 / max(busy, 1)
        if waiting <= max(1, self.turns.room_for(settings.DIR_LINE_S, at_once=share)):
            return None
        retry_after_s = self.turns.worked_off_s(waiting, at_once=share)
        detail = f"Too many messages are waiting. Nothing was done; retry after {retry_after_s} s."
        problem = Problem(code=ProblemCode.TOO_MANY_WAITING, detail=detail)
        return messages.refusal(problem, retry_after_s=retry_after_s)

    def _forget_topics(self) -> None:
        self._agents = set()
        self._upkeep_at_s = 0.0
        self._stopping.wait(_AFTER_ERROR_S)

    def _leave(self) -> None:
        try:
            self.broker.leave(self._agents)
        except redis.RedisError as error:
            _log.info("the consumer stays known to the broker: %s", type(error).__name__)
