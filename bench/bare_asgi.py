"""The bare view under the same server as the product."""

import os

os.environ["DJANGO_SETTINGS_MODULE"] = "bench.bare_settings"

from django.core.asgi import get_asgi_application

application = get_asgi_application()
