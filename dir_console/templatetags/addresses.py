"""`{% url %}` for pages, from the addresses that were written before."""

from django import template
from django.template.base import Parser, Token
from django.template.context import Context
from django.template.defaulttags import URLNode
from django.template.defaulttags import url as parse_url
from django.urls import NoReverseMatch
from django.utils.html import conditional_escape

from runtime.core.views import addresses

register = template.Library()


@register.tag
def url(parser: Parser, token: Token) -> "AddressNode":
    """The address of a page, as Django's own tag writes it."""
    node = parse_url(parser, token)
    return AddressNode(node.view_name, node.args, node.kwargs, node.asvar)


class AddressNode(URLNode):
    """Django's, except that no address is written twice."""

    def render(self, context: Context) -> str:
        """The address; with `as` it is only kept, and empty if there is none."""
        args = [arg.resolve(context) for arg in self.args]
        kwargs = {name: arg.resolve(context) for name, arg in self.kwargs.items()}
        address = ""
        try:
            address = addresses.of_page(self.view_name.resolve(context), *args, **kwargs)
        except NoReverseMatch:
            if self.asvar is None:
                raise
        if self.asvar is None:
            return conditional_escape(address) if context.autoescape else address
        context[self.asvar] = address
        return ""
