# The service and its dependencies in a read-only directory.
#
#   docker build --tag extender .
#
# Two builds of one commit give the same files, byte for byte: versions and hashes come from requirements.lock, nothing
# is compiled from source, and no timestamps are written. For the same digest pin the base image and the time, too:
#
#   docker buildx build --build-arg BASE=python:3.12-slim@sha256:… \
#     --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) --output type=image,rewrite-timestamp=true .
ARG BASE=python:3.12-slim

# hadolint ignore=DL3006  # the tag is in BASE
FROM ${BASE} AS builder
ARG SOURCE_DATE_EPOCH=1767225600
# The hash seed determines the order of set members in compiled code.
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore PYTHONHASHSEED=0
WORKDIR /src

COPY requirements.lock ./
RUN python -m venv /venv \
 && /venv/bin/pip install --no-compile --require-hashes --only-binary :all: --requirement requirements.lock

# The build tools are in the lock only to install the project; `pip check` fails if the service needs one of them.
COPY pyproject.toml README.md LICENSE ./
COPY extender ./extender
RUN /venv/bin/pip install --no-compile --no-build-isolation --no-deps . \
 && /venv/bin/pip uninstall --yes editables hatch-fancy-pypi-readme hatchling packaging pathspec pluggy tomlkit trove-classifiers \
 && /venv/bin/pip check \
 && /venv/bin/pip uninstall --yes pip setuptools

# Bytecode is compiled here because the root file system is read-only; checked by hash, not by file time.
RUN /venv/bin/python -m compileall -qf --invalidation-mode unchecked-hash /venv/lib \
 && find /venv -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH}" {} +


# hadolint ignore=DL3006
FROM ${BASE}
LABEL org.opencontainers.image.title="kube-scheduler-extender" \
      org.opencontainers.image.description="kube-scheduler HTTP extender: filters, scores and preempts as kube-scheduler does, and explains why" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"

COPY --from=builder /venv /venv

# The process writes no files: it works with readOnlyRootFilesystem, without capabilities and as any user.
ENV PATH=/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

# glibc maps blocks above the mmap threshold for each allocation, so every large request body (43 MB for 5,000 full
# nodes) pays for page faults again: 114 ms instead of 58. With a higher threshold freed memory is reused; with one arena
# it is kept once instead of once per thread.
ENV MALLOC_ARENA_MAX=1 \
    MALLOC_MMAP_THRESHOLD_=268435456 \
    MALLOC_TRIM_THRESHOLD_=268435456

USER 65532:65532
STOPSIGNAL SIGTERM
# 8888: kube-scheduler. 8889: health, metrics and debug endpoints.
EXPOSE 8888 8889

# For container engines; Kubernetes uses the probes of the pod instead. It reads port and TLS from the environment only:
# with admin.port or admin.tls in a file, run the image with --no-healthcheck.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import os, ssl, urllib.request as u; tls = 'EXTENDER_ADMIN__TLS__CERTIFICATE' in os.environ; port = os.environ.get('EXTENDER_ADMIN__PORT', '8889'); u.urlopen(f'http{\"s\" * tls}://127.0.0.1:{port}/livez', timeout=2, context=ssl._create_unverified_context())"]

# Both ports listen on loopback, for a scheduler in the same network namespace. Other addresses require TLS
# (EXTENDER_SERVER__HOST, EXTENDER_SERVER__TLS__CERTIFICATE and so on), or EXTENDER_SERVER__ALLOW_PLAIN_HTTP=true.
ENTRYPOINT ["extender"]
CMD ["serve"]
