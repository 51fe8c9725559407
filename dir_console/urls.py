"""Every address of the console and of the agent API."""

from allauth.account import views as account
from django.urls import URLPattern, URLResolver, include, path

from audit.access.permissions import public, signed_in
from dir_console import metrics, views
from dir_console.api import api

handler403 = "dir_console.views.forbidden"
urlpatterns: list[URLPattern | URLResolver] = [
    path("", views.overview, name="overview"),
    path("api/v1/", api.urls),
    path("escalations/", include("escalations.urls")),
    path("", include("runtime.urls")),
    path("glossary/", views.glossary_page, name="glossary"),
    path("livez", views.livez, name="livez"),
    path("readyz", views.readyz, name="readyz"),
    path("metrics", metrics.metrics, name="metrics"),
    # Only what password sign-in needs: the other pages of allauth have no address here.
    path("accounts/login/", public(account.login), name="account_login"),
    path("accounts/logout/", public(account.logout), name="account_logout"),
    path("accounts/reauthenticate/", signed_in(account.reauthenticate), name="account_reauthenticate"),
    path("accounts/password/change/", signed_in(account.password_change), name="account_change_password"),
]
