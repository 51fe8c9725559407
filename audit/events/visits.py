"""Who signs in and out, who tries to, and what people ask without deciding anything."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Strict

from audit.events.base import At, Event, Id, Kind, Names, Text


class NameTried(BaseModel):
    """How often one name was tried: `user:7`, or the keyed hash of a name that no user has.

    What strangers type is never kept: people type passwords there.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    name: Text
    failed: int
    locked: int


class SigninFailed(Event):
    """A minute of failed sign-ins, in one entry however many there were.

    `failed` had a wrong name or password, `locked` came too often to be looked at. `names` are those tried
    most; `others` counts the attempts with further names.
    """

    kind = Kind.SIGNIN_FAILED
    minute: At
    failed: int
    locked: int
    names: Annotated[tuple[NameTried, ...], Strict(False)]
    others: int = 0


class UserSignedIn(Event):
    kind = Kind.USER_SIGNED_IN
    user_id: int


class UserSignedOut(Event):
    kind = Kind.USER_SIGNED_OUT
    user_id: int


class UserPaused(Event):
    """After so many overrides in a row, the person looked at how they ended before going on."""

    kind = Kind.USER_PAUSED
    overrides: int


class UserPasswordChanged(Event):
    """By the user on the page or under an invite link, or from the command line (`system`)."""

    kind = Kind.USER_PASSWORD_CHANGED
    user_id: int
    by_invite: bool = False


class UserConfirmationFailed(Event):
    """A signed-in user gave a wrong password where it had to be confirmed; `locked`: too often."""

    kind = Kind.USER_CONFIRMATION_FAILED
    user_id: int
    locked: bool = False


class WhatifAnswered(Event):
    """The gate's answer to what a person might decide; nothing follows from it."""

    kind = Kind.WHATIF_ANSWERED
    escalation_id: Id
    action: Text
    verdict: Text
    codes: Names
