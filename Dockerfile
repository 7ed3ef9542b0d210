FROM python:3.12-slim AS builder
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src

COPY requirements.lock ./
RUN python -m venv /venv && /venv/bin/pip install --require-hashes -r requirements.lock

# The build tools are in the lock only to install the project; `pip check` notices if the service came to need one.
COPY pyproject.toml README.md LICENSE ./
COPY extender ./extender
RUN /venv/bin/pip install --no-build-isolation --no-deps . \
 && /venv/bin/pip uninstall --yes editables hatchling packaging pathspec pluggy tomlkit trove-classifiers \
 && /venv/bin/pip check \
 && /venv/bin/pip uninstall --yes pip


FROM python:3.12-slim
COPY --from=builder /venv /venv

# Nothing is written at run time: works with readOnlyRootFilesystem.
ENV PATH=/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

# glibc maps each block above the mmap threshold afresh and unmaps it when freed, so every large request body (43 MB for
# 5,000 full nodes) pays for its pages again: 114 ms instead of 58. Raised, the freed memory is kept and reused.
ENV MALLOC_MMAP_THRESHOLD_=268435456 \
    MALLOC_TRIM_THRESHOLD_=268435456

USER 65532:65532
EXPOSE 8888
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8888/livez', timeout=2)"]
# Listens on loopback, for a scheduler in the same network namespace. Anything else is plain HTTP across the network, and
# takes EXTENDER_SERVER__HOST=0.0.0.0 and EXTENDER_SERVER__ALLOW_PLAIN_HTTP=true.
ENTRYPOINT ["extender"]
CMD ["serve"]
