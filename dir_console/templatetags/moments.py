"""The time formatter of the pages as filters."""

from django import template

from runtime.core.views import times

register = template.Library()
for show in (times.moment, times.stamp, times.left, times.urgency):
    register.filter(show.__name__, show)
