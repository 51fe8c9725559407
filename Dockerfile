# One image for web, worker, beat and migrations; docker-compose.yml says which is which.

FROM python:3.11-slim AS packages
WORKDIR /build
COPY pyproject.toml requirements.lock ./
COPY .ci/runtime_lock.py .ci/
RUN python .ci/runtime_lock.py > runtime.lock \
 && python -m venv /opt/venv \
 && /opt/venv/bin/pip install --no-cache-dir --require-hashes -r runtime.lock

FROM python:3.11-slim
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    DJANGO_SETTINGS_MODULE=dir_console.settings \
    DIR_DATA=/data
RUN groupadd --gid 10001 console \
 && useradd --uid 10001 --gid console --no-create-home --shell /usr/sbin/nologin console \
 && install --directory --owner console --group console --mode 700 /data
COPY --from=packages /opt/venv /opt/venv
WORKDIR /app
COPY . .
USER console
VOLUME /data
EXPOSE 8000
CMD ["uvicorn", "dir_console.asgi:application", "--host", "0.0.0.0", "--port", "8000", "--workers", "2", \
     "--no-proxy-headers", "--http", "dir_console.connections:PatientProtocol"]
