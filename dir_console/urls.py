"""Every address of the console and of the agent API."""

from django.urls import URLPattern, URLResolver, path

from dir_console.api import api

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/", api.urls),
]
