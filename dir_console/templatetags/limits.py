"""How a value stands to its limit, in the words of `runtime.views.presenters`."""

from django import template

from runtime.views import presenters

register = template.Library()

register.simple_tag(presenters.limit_words)
register.simple_tag(presenters.compared)
