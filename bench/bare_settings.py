"""The product's settings with one address: the bare view that the gate is measured against."""

ROOT_URLCONF = "bench.baseline_view"
MIDDLEWARE = ["allauth.account.middleware.AccountMiddleware"]  # its app refuses to start without
