"""Settings of DIR Console. Deployment values come from the environment; `.env.example` explains each."""

import os
from pathlib import Path
from typing import Any

from django.contrib.messages import constants as message_constants

from dir_console import env

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = env.data_dir(BASE_DIR)
REDIS_URL = os.environ.get("REDIS_URL", "")
EMBEDDED = not REDIS_URL
# Where agents write their topics; agents reach it, so it is best a Redis of its own.
DIR_TOPIC_URL = os.environ.get("DIR_TOPIC_URL") or REDIS_URL

SECRET_KEY = env.secret_key(DATA_DIR)
DEBUG = False
ALLOWED_HOSTS = env.words("DIR_ALLOWED_HOSTS", default="localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = env.words("CSRF_TRUSTED_ORIGINS")
# Who trusts a proxy's X-Forwarded-Proto has one that adds to X-Forwarded-For as well, unless told otherwise.
TRUSTS_PROXY = os.environ.get("DIR_TRUST_PROXY") == "1"
DIR_PROXY_DEPTH = env.number("DIR_PROXY_DEPTH", default=int(TRUSTS_PROXY), least=0)
if TRUSTS_PROXY:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    USE_X_FORWARDED_HOST = True

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "channels",
    "allauth",
    "allauth.account",
    "audit",
    "runtime",
    "escalations",
    "dir_console",
]

MIDDLEWARE = [
    "dir_console.middleware.SecurityHeadersMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "dir_console.problems.ProblemMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "dir_console.middleware.ReadableRequestMiddleware",
]

ROOT_URLCONF = "dir_console.urls"
ASGI_APPLICATION = "dir_console.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": False,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "dir_console.views.chrome",
            ],
            "builtins": [
                "dir_console.templatetags.addresses",
                "dir_console.templatetags.components",
                "dir_console.templatetags.incidents",
                "dir_console.templatetags.limits",
                "dir_console.templatetags.moments",
            ],
            "loaders": [
                (
                    "django.template.loaders.cached.Loader",
                    [
                        "django.template.loaders.filesystem.Loader",
                        "django.template.loaders.app_directories.Loader",
                    ],
                )
            ],
        },
    }
]

DATABASES = {"default": env.database(DATA_DIR)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Sign-in: passwords now; allauth brings rate limits and re-authentication.
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
ACCOUNT_ADAPTER = "dir_console.auth.ConsoleAccountAdapter"
# By name and address, or by known browser: `dir_console.auth` makes the key. None by address alone, which
# everybody behind one proxy shares: a stranger would close it for all of them.
ACCOUNT_RATE_LIMITS = {"login": "", "login_failed": "5/5m/key"}
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_LOGOUT_ON_GET = False
ACCOUNT_REAUTHENTICATION_TIMEOUT = 300  # seconds; 04: a password not older than five minutes
PASSWORD_RESET_TIMEOUT = 72 * 3600  # seconds for which an invite link works
LOGIN_REDIRECT_URL = "/"
LOGIN_URL = "/accounts/login/"
SESSION_ENGINE = "dir_console.sessions"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 12 * 3600
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = IS_HTTPS = os.environ.get("DIR_HTTPS") == "1"
SECURE_HSTS_SECONDS = 30 * 24 * 3600 if IS_HTTPS else 0
# Without the proxy's word every request looks like plain HTTP, and would be sent round for ever.
SECURE_SSL_REDIRECT = IS_HTTPS and TRUSTS_PROXY
# Health is asked from beside the process, and agents may call inside the network.
SECURE_REDIRECT_EXEMPT = [r"^livez$", r"^readyz$", r"^metrics$", r"^api/"]
SILENCED_SYSTEM_CHECKS = [
    "security.W002",  # `SecurityHeadersMiddleware` says it of every answer
    "security.W005",  # other hosts under the same domain are not ours to move to HTTPS
    "security.W021",  # nor is the browsers' own list, which cannot be left again
]
if IS_HTTPS and not TRUSTS_PROXY:
    SILENCED_SYSTEM_CHECKS.append("security.W008")  # the proxy that ends TLS has to redirect, see above

# The tone of a message on a page, see `base.html`.
MESSAGE_TAGS = {
    message_constants.DEBUG: "info",
    message_constants.INFO: "info",
    message_constants.SUCCESS: "ok",
    message_constants.WARNING: "warn",
    message_constants.ERROR: "danger",
}

# Every page is in English: no word of a page asks which language is active.
LANGUAGE_CODE = "en"
USE_I18N = False
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = DATA_DIR / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}

# A body over this size is refused as a problem document, before it is read.
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000_000

CHANNEL_LAYERS: dict[str, dict[str, Any]]
CACHES: dict[str, dict[str, Any]]
# Counters of wrong passwords. Past this many a third is forgotten, so a guesser must not reach it easily.
COUNTERS = 50_000
if EMBEDDED:
    CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
            "OPTIONS": {"MAX_ENTRIES": COUNTERS},
        }
    }
else:
    # redis-py's own 5 s timeout kills an idle receive, and its pool refuses the hundredth socket.
    CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "channels_redis.core.RedisChannelLayer",
            "CONFIG": {"hosts": [{"address": REDIS_URL, "socket_timeout": 15, "max_connections": 1000}]},
        }
    }
    # Rate limits of sign-in must hold across processes, and must not depend on Redis being up.
    CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.db.DatabaseCache",
            "LOCATION": "dir_console_cache",
            "OPTIONS": {"MAX_ENTRIES": COUNTERS},
        }
    }

CELERY_BROKER_URL = REDIS_URL or None
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "socket_connect_timeout": 2,
    "socket_timeout": 5,
    "visibility_timeout": 3600,
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_SERIALIZER = "json"
# Soft guards and notices have queues of their own: a slow receiver holds up no intent and no sweep. So has
# sealing, which intents hold up for as long as a burst lasts.
CELERY_TASK_QUEUES = {
    name: {"exchange": name, "routing_key": name, "exchange_type": "direct"}
    for name in ("celery", "guards", "notices", "sealer")
}
CELERY_TASK_ROUTES = {
    "runtime.guard": {"queue": "guards"},
    "runtime.send_notices": {"queue": "notices"},
    "runtime.send_checkpoints": {"queue": "notices"},
    "runtime.send_events": {"queue": "notices"},
    "runtime.look_at_tools": {"queue": "notices"},
    "runtime.ask_for_results": {"queue": "notices"},
    "runtime.seal": {"queue": "sealer"},
    "runtime.number": {"queue": "sealer"},
}
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    "sweep": {"task": "runtime.sweep", "schedule": 1.0},
    # What piled up while every worker was busy sending would find nothing to do.
    "send_notices": {"task": "runtime.send_notices", "schedule": 1.0, "options": {"expires": 5}},
    "send_events": {"task": "runtime.send_events", "schedule": 1.0, "options": {"expires": 5}},
    "score": {"task": "runtime.score", "schedule": 1.0, "options": {"expires": 5}},
    "look_at_tools": {"task": "runtime.look_at_tools", "schedule": 2.0, "options": {"expires": 10}},
    "ask_for_results": {"task": "runtime.ask_for_results", "schedule": 1.0, "options": {"expires": 5}},
    "erase_due": {"task": "runtime.erase_due", "schedule": 60.0, "options": {"expires": 50}},
    "replay": {"task": "runtime.replay", "schedule": 1.0, "options": {"expires": 5}},
    "seal": {"task": "runtime.seal", "schedule": 1.0, "options": {"expires": 5}},
    "number": {"task": "runtime.number", "schedule": 0.2, "options": {"expires": 1}},
}
CELERY_BEAT_SCHEDULE_FILENAME = str(DATA_DIR / "celerybeat-schedule")

# The doors out of `runtime`: dotted paths, resolved at the first call.
DIR_PORTS = {
    "answer_exception": "dir_console.problems.answer",
    "open_escalation": "escalations.services.opening.open_escalation",
    "open_agent_escalation": "escalations.services.agent_silence.open_escalation",
    "open_interrupt_escalation": "escalations.services.interrupts.open_escalation",
    "compare_approval": "escalations.services.approvals.compare",
    "list_open_escalations": "escalations.queries.list_open_of",
    "find_escalated_flow": "escalations.queries.find_flow",
    "close_escalations": "escalations.services.opening.close_escalations",
    "expire_escalations": "escalations.services.deadlines.sweep",
    "announce_incident": "escalations.services.notices.outbox.queue_incident",
    "announce_task": "escalations.services.notices.outbox.queue_task",
    "send_notices": "escalations.services.notices.sending.send_due",
    "ring": "runtime.workers.embedded.ring" if EMBEDDED else "runtime.workers.celery_tasks.ring",
    "ring_guards": "runtime.workers.guard_threads.ring"
    if EMBEDDED
    else "runtime.workers.celery_tasks.ring_guards",
    "queue_guards": "runtime.guards.services.guard_config.queue_guards",
    "request_route_review": "runtime.guards.services.route_reviews.request",
    "begin_agent_events": "runtime.contexts.services.agent_events.begin",
    "has_dirty_flows": "runtime.flows.queries.saga_progress.has_dirty_flows",
    "may_have_taken_effect": "runtime.flows.queries.saga_progress.may_have_taken_effect",
    "fetch_issuer_keys": "runtime.execution.services.issuer_keys.fetch",
    "list_resource_names": "runtime.resources.queries.resource_facts.list_names",
    "list_existing_facts": "runtime.state.queries.visible_facts.list_existing",
}
DIR_HEADS = ["runtime.verification.stream_heads.flow_heads"]
# What compares rows with the entries about them, for verify_ledger.
DIR_ROW_CHECKS = [
    "runtime.verification.flow_rows.FlowRowCheck",
    "runtime.verification.told_rows.ToldRowCheck",
    "runtime.verification.record_rows.RecordRowCheck",
    "runtime.verification.feedback_rows.FeedbackRowCheck",
    "runtime.verification.execution_rows.ExecutionRowCheck",
    "runtime.verification.erasure_rows.ErasureRowCheck",
    "runtime.verification.callback_rows.CallbackRowCheck",
    "runtime.verification.advice_rows.AdviceRowCheck",
    "runtime.verification.signature_rows.SignatureCheck",
    "runtime.verification.registry_rows.RegistryRowCheck",
    "runtime.verification.world_rows.WorldRowCheck",
    "runtime.verification.world_version_rows.WorldVersionCheck",
    "runtime.verification.people_rows.PeopleRowCheck",
    "runtime.verification.limit_rows.LimitRowCheck",
    "runtime.verification.incident_rows.IncidentRowCheck",
    "runtime.verification.conversation_rows.ConversationRowCheck",
    "runtime.verification.capability_rows.CapabilityRowCheck",
    "runtime.verification.hold_rows.HoldRowCheck",
    "runtime.verification.replay_run_rows.ReplayRunRowCheck",
    "runtime.verification.receiver_rows.ReceiverRowCheck",
    "runtime.verification.history_rows.HistoryRowCheck",
    "runtime.verification.epoch_rows.EpochRowCheck",
    "escalations.row_checks.EscalationRowCheck",
    "escalations.task_row_checks.TaskRowCheck",
    "escalations.route_row_checks.RouteRowCheck",
    "escalations.note_rows.NoteRowCheck",
]
# Where words of flows are stored: an erasure empties these cells, and the checks let them be empty after one.
DIR_ERASURE_COLUMNS = [
    "runtime.verification.erasure_columns.TABLE",
    "escalations.erasure_columns.TABLE",
    "audit.erasure_table.TABLE",
]
# What knows where the entry of a message is; the audit app reads no rows of others.
DIR_MESSAGE_PLACES = "runtime.conversations.queries.message_places"
# What knows who wrote a version of a fact, and when.
DIR_FACT_WRITES = "runtime.verification.fact_writes.list_recorded"
# What gives the bytes that a flow's entries name by digest, for evidence packs.
DIR_PACK_OBJECTS = ["runtime.verification.pack_objects.of_flow", "escalations.pack_objects.of_flow"]

DIR_SIGNING_KEY = env.signing_key(DATA_DIR)
DIR_PAYLOAD_KEY = env.payload_key(DATA_DIR)
# Without a slash at the end; links in notices begin with it. `manage.py up` sets its own where there is none.
DIR_PUBLIC_URL = env.public_url()
# Where targets report results, and with that all that programs call.
DIR_CALLBACKS = "/callbacks/"
DIR_FOR_PROGRAMS = ("/api/", DIR_CALLBACKS)
DIR_TARGET_URLS = env.target_urls()
# MCP servers over stdio by name: only the deployment says what runs here.
DIR_TOOL_COMMANDS = env.tool_commands()
# As whom they run, where the worker may become another user; empty: as the worker itself.
DIR_TOOL_USER = env.tool_user()
# How often the tools of MCP servers are compared with their pins; each call compares its own as well.
DIR_TOOL_CHECK_S = env.number("DIR_TOOL_CHECK_S", default=300, least=5)
DIR_EGRESS_ALLOW = env.words("DIR_EGRESS_ALLOW")
# Who else than a key may say which agent calls, by the name of the issuer in its tokens.
DIR_TOKEN_ISSUERS = env.token_issuers(allow=DIR_EGRESS_ALLOW)
# Folders and webhooks outside that get the newest checkpoint of the ledger.
DIR_WITNESS = env.witnesses(allow=DIR_EGRESS_ALLOW)
DIR_WITNESS_SECRET = env.witness_secret(DIR_WITNESS)
DIR_WITNESS_EVERY_S = env.number("DIR_WITNESS_EVERY_S", default=60, least=1)
# Where files of events are written; without it no receiver can be a file.
DIR_EVENTS_FOLDER = env.events_folder()
if DIR_WITNESS:
    CELERY_BEAT_SCHEDULE["send_checkpoints"] = {
        "task": "runtime.send_checkpoints",
        "schedule": float(min(5, DIR_WITNESS_EVERY_S)),
        "options": {"expires": 5},
    }
DIR_LEASE_S = env.number("DIR_LEASE_S", default=30, least=2)
DIR_CIRCUIT_FAILURES = env.number("DIR_CIRCUIT_FAILURES", default=5, least=1)
DIR_CIRCUIT_FIRST_S = env.number("DIR_CIRCUIT_FIRST_S", default=5, least=1)
DIR_CIRCUIT_LONGEST_S = env.number("DIR_CIRCUIT_LONGEST_S", default=300, least=1)
DIR_RESERVATION_S = env.number("DIR_RESERVATION_S", default=60, least=1)
DIR_SESSION_S = env.number("DIR_SESSION_S", default=3600, least=10)
DIR_CONTEXT_TTL_S = env.number("DIR_CONTEXT_TTL_S", default=900, least=5)
DIR_CONTEXT_HISTORY_S = env.number("DIR_CONTEXT_HISTORY_S", default=86400, least=1)
DIR_CONTEXT_TOKENS = env.number("DIR_CONTEXT_TOKENS", default=16000, least=100)
# 0 keeps the words of flows permanently, unless their policy kind says for how long.
DIR_RETENTION_DAYS = env.number("DIR_RETENTION_DAYS", default=0, least=0)
# Classes of facts; a fact of no class keeps all of its versions.
DIR_FACT_RETENTION = env.fact_classes()
DIR_FLOW_TTL_S = env.number("DIR_FLOW_TTL_S", default=86400, least=10)
DIR_ESCALATION_SLA_S = env.number("DIR_ESCALATION_SLA_S", default=900, least=5)
DIR_UNDO_MAX_S = env.number("DIR_UNDO_MAX_S", default=120, least=0)
DIR_QUESTION_S = env.number("DIR_QUESTION_S", default=900, least=1)
# Requests of agents, and of people, that a server works on at a time, and how long the others may wait.
DIR_REQUESTS_AT_ONCE = env.number("DIR_REQUESTS_AT_ONCE", default=8, least=1)
DIR_LINE_S = env.number("DIR_LINE_S", default=10, least=1)
DIR_MARK = env.mark(DATA_DIR)
DIR_METRICS_ALLOW = env.words("DIR_METRICS_ALLOW", default="127.0.0.1,::1")
DIR_TENANT = "default"
# Set by `manage.py up --demo` in its own process, and by nothing else: where the demo takes scenarios.
DIR_DEMO_URL = ""
DIR_DEMO_TOKEN = ""

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    # At INFO it writes the URL of every call, and the URL of a notification route may hold a token.
    "loggers": {"httpx2": {"level": "WARNING"}},
    "root": {"handlers": ["stderr"], "level": os.environ.get("DIR_LOG_LEVEL", "WARNING")},
}
