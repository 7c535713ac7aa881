# The build stage makes a virtual environment; the last stage is Python and that environment, without pip, and without
# anything that could write, compile or fetch.
#
# A release names the base by its digest: --build-arg BASE=python:3.13-slim-trixie@sha256:… (CONTRIBUTING.md). Any base
# with Python 3.11 to 3.14 and its pip will do.
ARG BASE=python:3.13-slim-trixie
FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
RUN python -m venv --without-pip /opt/kubedelta

# Dependencies first: this layer changes only with the lock files. nkeys is published as source alone (pure Python): what
# builds it is locked as well, and no build fetches anything by itself. cel-expr-python ships 16 MB of its build files.
COPY requirements.txt requirements-build.txt ./
RUN pip install --require-hashes --only-binary :all: -r requirements-build.txt \
 && pip wheel --require-hashes --only-binary :all: --no-binary nkeys --no-build-isolation --wheel-dir locked -r requirements.txt \
 && pip --python /opt/kubedelta/bin/python install --no-deps --no-index --no-compile locked/*.whl \
 && rm -rf /opt/kubedelta/lib/python3.*/site-packages/bazel-project

COPY pyproject.toml README.md LICENSE ./
COPY kubedelta ./kubedelta
COPY bridge ./bridge
COPY sinks ./sinks
COPY config ./config
COPY reader/pyproject.toml reader/README.md ./reader/
COPY reader/kubedelta_reader ./reader/kubedelta_reader
# The bytecode is compiled here because nothing can be written later, and is not compared with the sources' times,
# which layers may change.
RUN pip wheel --no-deps --no-build-isolation --wheel-dir dist ./reader . \
 && pip --python /opt/kubedelta/bin/python install --no-deps --no-index --no-compile dist/*.whl \
 && /opt/kubedelta/bin/python -m compileall -q -f --invalidation-mode unchecked-hash /opt/kubedelta

FROM ${BASE}
LABEL org.opencontainers.image.title="kubedelta" \
      org.opencontainers.image.description="Ordered, deduplicated Kubernetes deltas to Kafka, NATS, webhooks and files" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN pip uninstall --yes --root-user-action ignore pip \
 && rm -rf /usr/local/lib/python3.*/ensurepip \
 && groupadd --gid 65532 kubedelta \
 && useradd --uid 65532 --gid 65532 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin kubedelta
COPY --from=build /opt/kubedelta /opt/kubedelta
ENV PATH=/opt/kubedelta/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# A number, so that Kubernetes can tell that it is not root. The root file system may be read-only: state.directory is a
# volume that this user may write, and /tmp is needed only for client certificates that stand inside a kubeconfig.
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
# No HEALTHCHECK: Kubernetes does not read it, and has its own probes (/healthz and /readyz; see deploy/).
ENTRYPOINT ["kubedelta"]
CMD ["--help"]
