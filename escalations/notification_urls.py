"""Addresses of the notification routes."""

from django.urls import path

from escalations.views import notifications

urlpatterns = [
    path("", notifications.index, name="notifications"),
    path("<uuid:route_id>/", notifications.edit, name="notification-route"),
    path("<uuid:route_id>/on/", notifications.enable, name="enable-notification-route"),
    path("<uuid:route_id>/off/", notifications.disable, name="disable-notification-route"),
    path("<uuid:route_id>/test/", notifications.test, name="test-notification-route"),
    path("<uuid:route_id>/delete/", notifications.delete, name="delete-notification-route"),
]
