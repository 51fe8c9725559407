"""How a value stands to its limit, in the words of `runtime.core.views.labels`."""

from django import template

from runtime.core.views import labels

register = template.Library()

register.simple_tag(labels.compared)
