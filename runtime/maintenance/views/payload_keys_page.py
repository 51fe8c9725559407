"""The keys of payloads: everyone reads; admins rotate and destroy them, with the password."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, TypeVar
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from audit import payload_cipher, queries
from audit.access.permissions import actor_of, may, require, signed_in, tenant_of
from audit.access.roles import Permission
from audit.models import ClassKey, KeyState
from audit.payload_cipher import PayloadKeyError
from audit.payload_keys import PayloadClass
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.core import clock, transactions
from runtime.core.views import error_page, labels, step_up
from runtime.core.views.forms import ActionForm, ReasonField
from runtime.core.views.labels import Badge
from runtime.core.views.stream_names import entry_url
from runtime.maintenance.models import PayloadRound
from runtime.maintenance.queries import payload_key_list
from runtime.maintenance.queries.payload_key_list import KeyOfClass, Told
from runtime.maintenance.services import payload_destruction, payload_rotation, payload_rounds
from runtime.maintenance.services.payload_destruction import GRACE, Destroyed
from runtime.registry.queries import people

Answer = TypeVar("Answer")
# So many payloads are erased in about two seconds; the command takes any number.
MOST_AT_ONCE: Final = 100_000
# So many characters of a key's id are typed to destroy it.
SHORT_ID: Final = 8
MOVE, LEAVE = "move", "leave"
CLASSES: Final[Mapping[str, str]] = {
    PayloadClass.PARAMETERS: "What agents send: parameters, explanations, triggers, summaries of steps.",
    PayloadClass.RECEIPTS: "What targets answered.",
    PayloadClass.PEOPLE: "What people write: notes, questions and answers, reasons, post-mortems.",
    PayloadClass.FINDINGS: "What soft guards found.",
}
STATES: Final[Mapping[str, Badge]] = {
    KeyState.IN_USE: Badge("ok", "check", "In use"),
    KeyState.RETIRED: Badge("info", "clock", "Retired"),
    KeyState.DESTROYED: Badge("idle", "cross", "Destroyed"),
}
BUSY = Problem(code=ProblemCode.BUSY, detail="Someone else changed a key. Nothing was changed; try again.")


class RotateForm(ActionForm):
    """Another key for a class: which key was shown as in use, and what becomes of what is under it."""

    data_class = forms.ChoiceField(choices=[(one.value, one.value) for one in PayloadClass])
    seen = forms.UUIDField()
    older = forms.ChoiceField(
        choices=[(MOVE, MOVE), (LEAVE, LEAVE)],
        error_messages={"required": "Choose what happens to older payloads."},
    )
    reason = ReasonField(suffix=" Nothing was changed.")


class DestroyForm(ActionForm):
    """What was shown, the beginning of the key's id, and why."""

    codes: ClassVar[Mapping[str, ProblemCode]] = {"typed_id": ProblemCode.ID_NOT_TYPED}

    seen = forms.RegexField("^[0-9a-f]{64}$")
    typed_id = forms.CharField(required=False)
    reason = ReasonField(suffix=" Nothing was destroyed.")

    def __init__(self, given: Any, *, key: ClassKey) -> None:
        super().__init__(given)
        self.short_id = short_id(key.pk)

    def clean_typed_id(self) -> str:
        """The beginning of the id, exactly."""
        typed = str(self.cleaned_data["typed_id"])
        if typed != self.short_id:
            raise forms.ValidationError(f"Type {self.short_id} to confirm: this cannot be undone.")
        return typed


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    """Show the keys of each class, and how much is under each."""
    return _page(request)


@require_POST
@require(Permission.ERASE)
def rotate(request: HttpRequest) -> HttpResponse:
    """Begin another key of a class; what is older is encrypted anew in rounds, or left under its key."""
    form = RotateForm(request.POST)
    if not form.is_valid():
        return _page(request, problem=form.problem())
    if not step_up.is_fresh(request):
        return _page(request, problem=step_up.NEEDED)
    given = form.cleaned_data
    answer = _carefully(
        lambda: payload_rotation.begin(
            tenant=tenant_of(request.user),
            data_class=given["data_class"],
            actor=actor_of(request.user),
            reason=given["reason"].strip(),
            seen=given["seen"],
            in_rounds=given["older"] == MOVE,
        )
    )
    if isinstance(answer, Problem):
        return _page(request, problem=answer)
    older = "Older payloads are encrypted anew in the background."
    if given["older"] == LEAVE:
        older = "Older payloads stay under the retired key."
    messages.success(request, f"The class {given['data_class']} has a new key. {older}")
    return redirect("payload-keys")


@require_POST
@require(Permission.ERASE)
def encrypt(request: HttpRequest) -> HttpResponse:
    """Let what is under a retired key, or in clear where none is named, be encrypted with the key in use."""
    back, named = reverse("payload-keys"), request.POST.get("key", "")
    try:
        key_id = UUID(named) if named else None
    except ValueError:
        wrong = Problem(code=ProblemCode.NOT_FOUND, detail="No key has this id.")
        return error_page.page(request, wrong, back=back)
    if not step_up.is_fresh(request):
        return _page(request, problem=step_up.NEEDED)
    answer = _carefully(
        lambda: payload_rounds.start(
            tenant=tenant_of(request.user), key_id=key_id, actor=actor_of(request.user)
        )
    )
    if isinstance(answer, Problem):
        return _page(request, problem=answer)
    messages.success(request, "These payloads are encrypted anew in the background.")
    return redirect("payload-keys")


@require_http_methods(["GET", "HEAD", "POST"])
@require(Permission.ERASE)
def destroy(request: HttpRequest, class_key: UUID) -> HttpResponse:
    """Show what would be erased with a retired key; on a POST that confirms just that, destroy it."""
    key = payload_key_list.get_key(class_key, tenant=tenant_of(request.user))
    if key is None:
        raise Http404
    if request.method != "POST":
        return _destroy_page(request, key)
    form = DestroyForm(request.POST, key=key)
    if not form.is_valid():
        return _destroy_page(request, key, problem=form.problem())
    if not step_up.is_fresh(request):
        return _destroy_page(request, key, problem=step_up.NEEDED)
    answer = _carefully(
        lambda: payload_destruction.destroy(
            tenant=key.tenant,
            data_class=key.data_class,
            key_id=key.pk,
            reason=form.cleaned_data["reason"].strip(),
            actor=actor_of(request.user),
            seen=form.cleaned_data["seen"],
            most=MOST_AT_ONCE,
        )
    )
    if isinstance(answer, Problem):
        return _destroy_page(request, key, problem=answer)
    messages.success(
        request, f"The key {short_id(key.pk)} is destroyed, and {answer.payloads:,} payloads are erased."
    )
    return redirect("payload-keys")


def short_id(key_id: UUID) -> str:
    """The beginning of a key's id."""
    return str(key_id)[:SHORT_ID]


def _carefully(work: Callable[[], Answer]) -> Answer | Problem:
    """What `work` answers; a lost race or a key that this process cannot use becomes a refusal."""
    try:
        return work()
    except transactions.BusyError:
        return BUSY
    except PayloadKeyError as error:
        return Problem(code=ProblemCode.PAYLOAD_KEY_UNUSABLE, detail=f"{error}.")


def _destroy_page(request: HttpRequest, key: ClassKey, *, problem: Problem | None = None) -> HttpResponse:
    would = _carefully(
        lambda: payload_destruction.destroy(
            tenant=key.tenant,
            data_class=key.data_class,
            key_id=key.pk,
            reason="",
            actor=actor_of(request.user),
            is_dry=True,
            most=MOST_AT_ONCE,
        )
    )
    due = would if isinstance(would, Destroyed) else None
    context: dict[str, Any] = {
        "key": key,
        "short_id": short_id(key.pk),
        "problem": problem,
        "refused": would if isinstance(would, Problem) else None,
        "due": due,
        "touched": payload_key_list.find_touched(key) if due is not None and due.payloads else None,
        "reason": request.POST.get("reason", ""),
        "is_fresh": step_up.is_fresh(request),
    }
    status = 200 if problem is None else problem.status
    return render(request, "runtime/payload_key_destroy.html", context, status=status)


def _page(request: HttpRequest, *, problem: Problem | None = None) -> HttpResponse:
    tenant = tenant_of(request.user)
    keys = payload_key_list.list_keys(tenant=tenant)
    told = [
        each
        for of_class in keys.values()
        for key in of_class
        for each in (key.made, key.retired, key.destroyed)
        if each is not None
    ]
    names = people.names_of([each.entry.actor for each in told])
    named = {str(text) for each in told if (text := each.payload.get("reason_commitment"))}
    reasons = queries.list_bodies(tenant=tenant, commitments=named)

    def shown(each: Told | None) -> dict[str, Any] | None:
        if each is None:
            return None
        text = each.payload.get("reason_commitment")
        return {
            "by": labels.actor_words(each.entry.actor, names),
            "reason": labels.recorded_text(reasons.get(str(text))) if text else "",
            "payloads": each.payload.get("payloads", 0),
            "url": entry_url(each.entry.stream, each.entry.seq),
        }

    def line(key: KeyOfClass) -> dict[str, Any]:
        row = key.row
        return {
            "row": row,
            "short_id": short_id(row.pk),
            "state": labels.badge(STATES, row.state),
            "is_retired": row.state is KeyState.RETIRED,
            "payloads": key.payloads,
            "round": key.round,
            "is_due": _is_due(key.round),
            "may_go_at": None if row.retired_at is None else row.retired_at + GRACE,
            "is_grace_over": row.retired_at is not None and clock.now() >= row.retired_at + GRACE,
            "made": shown(key.made),
            "retired": shown(key.retired),
            "destroyed": shown(key.destroyed),
        }

    context: dict[str, Any] = {
        "classes": [
            {
                "name": name,
                "words": CLASSES.get(name, ""),
                "keys": [line(key) for key in keys.get(name, ())],
                "in_use": next(
                    (key.row for key in keys.get(name, ()) if key.row.state is KeyState.IN_USE), None
                ),
            }
            for name in dict.fromkeys([*CLASSES, *keys])
        ],
        "in_clear": payload_key_list.count_under(None, tenant=tenant),
        "round_in_clear": (round_in_clear := payload_key_list.find_round_in_clear(tenant=tenant)),
        "is_clear_due": _is_due(round_in_clear),
        "class_of_clear": payload_rotation.CLASS_OF_CLEAR,
        "most_counted": payload_key_list.MOST_COUNTED,
        "most_shown": payload_key_list.MOST_SHOWN,
        "has_master": payload_cipher.master() is not None,
        "may_change": may(request.user, Permission.ERASE),
        "is_fresh": step_up.is_fresh(request),
        "given": request.POST.dict(),
        "problem": problem,
    }
    status = 200 if problem is None else problem.status
    return render(request, "runtime/payload_keys.html", context, status=status)


def _is_due(stored: PayloadRound | None) -> bool:
    return stored is not None and stored.ended_at is None
