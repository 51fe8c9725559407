"""Every address of the console and of the agent API."""

from allauth.account import views as account
from django.urls import URLPattern, URLResolver, include, path

from audit.access.permissions import public, signed_in
from dir_console import (
    app_files,
    callback_view,
    conformance_pages,
    demo_pages,
    help_pages,
    metrics,
    person_pages,
    search_page,
    tour,
    views,
)
from dir_console.api import api
from dir_console.explorer import page as explorer
from escalations.views import noise_page, notes, precedent_pages, spec_page

# Checks of passwords wait in a line of their own (`crowds`), and an overloaded server says that it lives.
WITHOUT_TURN = ("/accounts/", "/livez", "/readyz", "/metrics")
# One may ask an issuer of tokens for its keys, the other judges up to a hundred proposals in a transaction
# each: where there is one writer, what is written in one go does not wait for them.
MAY_TAKE_LONG = frozenset({"/api/v1/handshake", "/api/v1/proposals/batch"})
# What agents send most; where there is one writer, those that wait for it are written in one commit.
SHARES_A_COMMIT = frozenset({"/api/v1/proposals"})

handler403 = "dir_console.views.forbidden"
urlpatterns: list[URLPattern | URLResolver] = [
    path("", views.overview, name="overview"),
    path("inbox/", views.inbox, name="inbox"),
    path("api/v1/", api.urls),
    path("callbacks/<str:token>", callback_view.report, name="callback"),
    path("escalations/", include("escalations.urls")),
    path("decisions/", include("escalations.decision_urls")),
    path("notifications/", include("escalations.notification_urls")),
    path("shift/", include("escalations.shift_urls")),
    path("tasks/", include("escalations.task_urls")),
    path("notes/flow/<uuid:dfid>/", notes.of_flow, name="flow-notes"),
    path("notes/agent/<str:agent_id>/", notes.of_agent, name="agent-notes"),
    path("", include("runtime.urls")),
    path("noise/", noise_page.index, name="noise"),
    path("precedents/", precedent_pages.index, name="precedents"),
    path("precedents/<name:digest>/", precedent_pages.detail, name="precedent"),
    path("precedents/<name:digest>/draft/", precedent_pages.draft, name="draft-precedent"),
    path("specs/", spec_page.index, name="specs"),
    path("search/", search_page.index, name="search"),
    path("explore/", explorer.index, name="explore"),
    path("people/<int:user>/", person_pages.person, name="person"),
    path("account/", person_pages.account, name="account"),
    path("conformance/", conformance_pages.index, name="conformance"),
    path("conformance/run/", conformance_pages.start, name="run-conformance"),
    path("glossary/", views.glossary_page, name="glossary"),
    path("help/", help_pages.index, name="help"),
    path("help/<slug:page>/", help_pages.detail, name="help-page"),
    path("tour/hide/", tour.hide, name="hide-tour"),
    path("tour/show/", tour.show, name="show-tour"),
    path("demo/", demo_pages.index, name="demo"),
    path("demo/<slug:scenario>/start/", demo_pages.start, name="start-scenario"),
    path("demo/<slug:scenario>/end/", demo_pages.end, name="end-scenario"),
    path("manifest.webmanifest", app_files.manifest, name="manifest"),
    path("service-worker.js", app_files.service_worker, name="service-worker"),
    path("offline/", app_files.offline, name="offline"),
    path("livez", views.livez, name="livez"),
    path("readyz", views.readyz, name="readyz"),
    path("metrics", metrics.metrics, name="metrics"),
    # Only what password sign-in needs: the other pages of allauth have no address here.
    path("accounts/login/", public(account.login), name="account_login"),
    path("accounts/logout/", public(account.logout), name="account_logout"),
    path("accounts/reauthenticate/", signed_in(account.reauthenticate), name="account_reauthenticate"),
    path("accounts/password/change/", signed_in(account.password_change), name="account_change_password"),
]
