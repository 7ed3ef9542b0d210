"""Load credentials for the API server: a kubeconfig, or the service account of the pod (client-go's InClusterConfig).

The official Python client reads the files. Where it differs from client-go in ways that matter to a service that runs
for months, the entries are changed before the client sees them. The client reads a `tokenFile` once and keeps the
newline; runs an exec plugin without a timeout, only logs its failure, and drops the certificate if there is a token,
too; takes the last current-context of several files; lets NO_PROXY override proxy-url, and does not send its password.

Rule: error messages quote names and paths of a kubeconfig, never other values, which may be secret.
"""

import base64
import contextlib
import json
import os
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import urllib3
import yaml

from extender.cluster.apiserver.stream import one_line
from extender.errors import ExtenderError
from extender.k8s.time import parse_datetime
from extender.utilities.file_watch import Signature, signature_of
from extender.utilities.regular_file import open_regular_file, read_regular_file
from extender.utilities.yaml_reader import MAX_REPEATED_CONFIG_NODES, LimitError, YAMLError, read_documents

EXEC_PLUGIN_TIMEOUT_SECONDS = 60.0  # Seconds after which an exec plugin is killed
MAX_KUBECONFIG_BYTES = 1 << 20  # Size of a kubeconfig
MAX_CERTIFICATE_BYTES = 1 << 20  # Size of a certificate, key or bundle of CAs
MAX_TOKEN_BYTES = 64 << 10  # Size of a token file

EXEC_API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")

JSON = dict[str, Any]


class CredentialsError(ExtenderError):
    """A kubeconfig, service account or exec plugin provides no usable credentials."""

    status = 503


class NoKubeconfig(CredentialsError):
    """None is named, there is none at the usual places, and this is not a pod."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Address, TLS settings and credentials for connections to the API server."""

    configuration: Any  # A kubernetes.client.Configuration: host, TLS, proxy
    place: str  # Source of the credentials, for log lines and errors
    authorization: str | None = None  # Value of the Authorization header
    token_file: Path | None = None  # File to reload the token from; None if the token is not in a file
    lifetime: float | None = None  # Seconds until an exec plugin's credentials expire; None if they do not
    files: tuple[Path, ...] = ()  # The kubeconfig files
    signature: Signature = ()  # Signature of `files` before they were read
    namespace: str = "default"  # Namespace of the kubeconfig's context, or of the pod
    context: str = ""  # The kubeconfig's context; empty in a pod

    @property
    def connection(self) -> tuple[object, ...]:
        """Address, TLS settings and proxy; if they change, new connections are opened."""
        # The client writes inline data to files named after their content, so that a change shows in the path.
        names = ("host", "ssl_ca_cert", "cert_file", "key_file", "verify_ssl", "tls_server_name", "proxy")
        return tuple(getattr(self.configuration, name, None) for name in names)


def load(kubeconfig: str | None = None, context: str | None = None) -> Credentials:
    """Return the credentials of the given kubeconfig, else of this process's pod, else of the default kubeconfig.

    A `context` alone selects from the default kubeconfig. Raises CredentialsError.
    """
    if kubeconfig is None and context is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
        from kubernetes.config import incluster_config  # imported late: it takes half a second

        token_file = Path(incluster_config.SERVICE_TOKEN_FILENAME)
        if token_file.is_file():
            return _in_cluster_credentials(token_file)
    return _from_kubeconfig(_kubeconfig_files(kubeconfig), context)


def read_token(path: Path) -> str:
    """Return the token in a file; CredentialsError if it holds no valid token."""
    try:
        token = read_regular_file(path, MAX_TOKEN_BYTES).decode("utf-8").strip()
    except (OSError, ValueError) as error:
        raise CredentialsError(f"the token file {path}: {getattr(error, 'strerror', None) or 'not text'}") from None
    return _valid_token(token, f"the token file {path}")


def _valid_token(token: str, place: str) -> str:
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise CredentialsError(f"{place}: not a valid token")
    return token


# --- a pod's service account ----------------------------------------------------------------------------------------


def _in_cluster_credentials(token_file: Path) -> Credentials:
    from kubernetes.client import Configuration
    from kubernetes.config import ConfigException, incluster_config

    configuration = Configuration()
    try:
        incluster_config.load_incluster_config(configuration, try_refresh_token=False)
    except (ConfigException, OSError, ValueError) as error:
        raise CredentialsError(f"the pod's service account: {error}") from None
    _check_certificate_files(configuration, "the pod's service account")
    authorization = f"Bearer {read_token(token_file)}"
    namespace = ""
    with contextlib.suppress(OSError, ValueError):  # older clusters may mount the token without it
        namespace = read_regular_file(token_file.parent / "namespace", MAX_TOKEN_BYTES).decode("utf-8").strip()
    place = "the pod's service account"
    return Credentials(configuration, place, authorization, token_file, namespace=namespace or "default")


# --- a kubeconfig ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Entry:
    """A context, cluster or user of a kubeconfig, and the file that defines it."""

    value: JSON
    file: Path
    place: str

    def text(self, key: str) -> str:
        value = self.value.get(key)
        return value.strip() if isinstance(value, str) else ""

    def path(self, key: str) -> Path | None:
        """Return the path under `key`, resolved against the defining file; None if it is unset."""
        return self.file.parent / Path(self.text(key)) if self.text(key) else None


def _kubeconfig_files(kubeconfig: str | None) -> list[Path]:
    """Return the kubeconfig files that exist; CredentialsError if none does."""
    named = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    listed = [named] if kubeconfig else [part for part in named.split(os.pathsep) if part]
    found = [path for path in (Path(part).expanduser() for part in listed) if path.exists()]
    if not found:
        hint = "" if kubeconfig else ", and this is not a pod with a service account"
        raise (CredentialsError if kubeconfig else NoKubeconfig)(f"kubeconfig {named}: no such file{hint}")
    return found


def _from_kubeconfig(files: list[Path], context: str | None) -> Credentials:
    from kubernetes.client import Configuration
    from kubernetes.config import ConfigException
    from kubernetes.config.kube_config import KubeConfigLoader

    # 1. Select the context, its cluster and its user.
    before = signature_of(files)  # before the files are read, so that a change meanwhile is noticed
    names = ", ".join(map(str, files))
    merged, current = _merge(files)
    context = context or current
    if not context:
        raise CredentialsError(f"kubeconfig {names}: it has no current-context, and no context was given")
    place = f"kubeconfig {names}, context {context}"
    chosen = _entry(merged, "context", context, f"kubeconfig {names}", place)
    cluster = _entry(merged, "cluster", chosen.text("cluster"), place, place)
    user = _entry(merged, "user", chosen.text("user"), place, place) if chosen.text("user") else None
    if not cluster.text("server"):
        raise CredentialsError(f"{place}: its cluster has no server")
    # 2. Read a token file or run an exec plugin.
    token_file, lifetime = _resolve_user_auth(user, cluster) if user else (None, None)
    # 3. Let the client load everything else.
    configuration = Configuration()
    try:
        KubeConfigLoader(merged, active_context=context, config_base_path=None).load_and_set(configuration)
    except (ConfigException, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        # The client's message quotes the entry after the first brace, with the user's secrets.
        why = str(error).partition("{")[0].strip() or type(error).__name__
        raise CredentialsError(f"{place}: {why}") from None
    # 4. Correct the remaining differences from client-go.
    _check_certificate_files(configuration, place)
    configuration.refresh_api_key_hook = None  # ApiServer decides when to refresh, with a monotonic clock
    _configure_proxy(configuration, cluster)
    authorization = configuration.api_key.get("BearerToken")
    namespace = chosen.text("namespace") or "default"
    return Credentials(
        configuration, place, authorization, token_file, lifetime, tuple(files), before, namespace, context
    )


def _merge(files: list[Path]) -> tuple[Any, str]:
    """Return the merged files (the client's ConfigNode), and the current-context of the first file that sets one."""
    from kubernetes.config import ConfigException
    from kubernetes.config.kube_config import KubeConfigMerger

    reading = files[0]
    contents: list[JSON] = []
    try:
        for reading in files:
            # Read once more within limits, which the client does not have.
            list(read_documents(read_regular_file(reading, MAX_KUBECONFIG_BYTES), MAX_REPEATED_CONFIG_NODES))
            contents.append(KubeConfigMerger(str(reading)).config_files[str(reading)])
        merged = KubeConfigMerger(os.pathsep.join(map(str, files))).config
        for section in ("contexts", "clusters", "users"):
            for entry in merged.value[section]:
                entry.value["name"]  # raises KeyError for an invalid entry
    except OSError as error:
        raise CredentialsError(f"kubeconfig {reading}: {error.strerror}") from None
    except LimitError as error:
        raise CredentialsError(f"kubeconfig {reading}: {error.problem}") from None
    except (YAMLError, yaml.YAMLError) as error:
        line = getattr(error, "line", None)  # without the problem, which may quote a secret
        raise CredentialsError(f"kubeconfig {reading}: not YAML{f' at line {line}' if line else ''}") from None
    except (ConfigException, ValueError, TypeError, KeyError, AttributeError):
        raise CredentialsError(f"kubeconfig {reading}: not a kubeconfig") from None
    return merged, next((str(one["current-context"]) for one in contents if one.get("current-context")), "")


def _entry(merged: Any, section: str, name: str, where: str, place: str) -> _Entry:
    entries = merged.value[f"{section}s"]
    found = next((entry for entry in entries if entry.value["name"] == name), None)
    if found is None:
        there = ", ".join(str(entry.value["name"]) for entry in entries) or "none"
        raise CredentialsError(f"{where}: unknown {section} {name!r} (known: {there})")
    if found.value.get(section) is None:
        found.value[section] = {}
    if not isinstance(found.value[section], dict):
        raise CredentialsError(f"{place}: the {section} {name!r} is not a mapping")
    return _Entry(found.value[section], Path(found.path), f"{place}, {section} {name}")


def _resolve_user_auth(user: _Entry, cluster: _Entry) -> tuple[Path | None, float | None]:
    """Replace a tokenFile or exec plugin by its token or certificate; return (token file, lifetime in seconds)."""
    if user.text("as"):
        raise CredentialsError(f"{user.place}: impersonation (as) is not supported")
    lifetime = None
    token_file = user.path("tokenFile")
    if token_file is not None:
        user.value["token"] = read_token(token_file)
    elif user.text("token"):
        user.value["token"] = _valid_token(user.text("token"), user.place)
    elif user.value.get("exec"):
        found, lifetime = _parse_exec_credential(_run_plugin(user, cluster), user)
        user.value.update(found)
    for key in ("tokenFile", "exec"):
        user.value.pop(key, None)
    return token_file, lifetime


def _check_certificate_files(configuration: Any, place: str) -> None:
    """Raise CredentialsError for a certificate, key or CA that is not a regular file: reading it could block."""
    for path in (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file):
        try:
            if path is not None:
                open_regular_file(path, MAX_CERTIFICATE_BYTES).close()
        except OSError as error:
            raise CredentialsError(f"{place}: {path}: {error.strerror}") from None


def _configure_proxy(configuration: Any, cluster: _Entry) -> None:
    """Apply proxy-url regardless of NO_PROXY, as client-go does, and send its user and password to the proxy."""
    if cluster.text("proxy-url"):
        configuration.no_proxy = ""
    proxy = urlsplit(configuration.proxy or "")
    if proxy.username is not None:
        login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        configuration.proxy_headers = urllib3.make_headers(proxy_basic_auth=login)


# --- an exec plugin -------------------------------------------------------------------------------------------------


def _run_plugin(user: _Entry, cluster: _Entry) -> bytes:
    # 1. Refuse what client-go refuses, and a plugin that would wait for a terminal.
    spec: JSON = user.value["exec"]
    version, command = spec.get("apiVersion"), spec.get("command")
    place = f"{user.place}, exec plugin {command}"
    if version not in EXEC_API_VERSIONS:
        raise CredentialsError(f"{place}: apiVersion must be one of {', '.join(EXEC_API_VERSIONS)}")
    if not command or spec.get("interactiveMode") == "Always":
        raise CredentialsError(f"{place}: command is missing, or interactiveMode is Always")
    # 2. Run it. A command with a slash is relative to the kubeconfig, as in client-go; others are found in PATH.
    program = str(user.file.absolute().parent / command) if os.sep in str(command) else str(command)
    try:
        done = subprocess.run(
            [program, *map(str, spec.get("args") or ())],
            env=os.environ | _plugin_environment(spec, cluster),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=EXEC_PLUGIN_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CredentialsError(f"{place}: timed out after {EXEC_PLUGIN_TIMEOUT_SECONDS:g} seconds") from None
    except (OSError, ValueError, TypeError, KeyError) as error:
        why = getattr(error, "strerror", None) or "invalid args or env"
        raise CredentialsError(f"{place}: {why}") from None
    # 3. Its stdout is the ExecCredential; a failure is explained on stderr.
    if done.returncode != 0:
        stderr = one_line(done.stderr.decode("utf-8", "replace"), limit=300)
        raise CredentialsError(f"{place}: exited with status {done.returncode}: {stderr or 'no output on stderr'}")
    return done.stdout


def _plugin_environment(spec: JSON, cluster: _Entry) -> dict[str, str]:
    info: JSON = {"interactive": False}
    if spec.get("provideClusterInfo"):
        info["cluster"] = _cluster_info(cluster)
    credential = {"apiVersion": spec["apiVersion"], "kind": "ExecCredential", "spec": info}
    given = {str(one["name"]): str(one["value"]) for one in spec.get("env") or ()}
    return given | {"KUBERNETES_EXEC_INFO": json.dumps(credential)}


def _cluster_info(cluster: _Entry) -> JSON:
    """Return the `cluster` of an ExecCredential, with the CA inline and the exec extension as `config`."""
    keys = ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url")
    info = {key: cluster.value[key] for key in keys if cluster.value.get(key)}
    authority = cluster.path("certificate-authority")
    if authority is not None and "certificate-authority-data" not in info:
        data = read_regular_file(authority, MAX_CERTIFICATE_BYTES)
        info["certificate-authority-data"] = base64.b64encode(data).decode()
    for extension in cluster.value.get("extensions") or ():
        if extension.get("name") == "client.authentication.k8s.io/exec":
            info["config"] = extension.get("extension")
    return info


def _parse_exec_credential(output: bytes, user: _Entry) -> tuple[dict[str, str], float | None]:
    """Return the fields of a kubeconfig user, and the seconds until they expire (None if they do not)."""
    # 1. The answer must be an ExecCredential of the requested version.
    spec: JSON = user.value["exec"]
    place = f"{user.place}, exec plugin {spec['command']}"
    try:
        answer = json.loads(output)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict) or not isinstance(status := answer.get("status"), dict):
        raise CredentialsError(f"{place} printed no ExecCredential with a status")
    if answer.get("apiVersion") != spec["apiVersion"]:
        returned = one_line(str(answer.get("apiVersion")), limit=100)
        raise CredentialsError(f"{place} returned apiVersion {returned}, expected {spec['apiVersion']}")
    # 2. Its expiry, after which the plugin runs again.
    lifetime, found = None, {}
    if status.get("expirationTimestamp"):
        try:
            expiry = parse_datetime(str(status["expirationTimestamp"]))
        except ValueError:
            raise CredentialsError(f"{place} returned an invalid expirationTimestamp") from None
        lifetime = (expiry - datetime.now(UTC)).total_seconds()
    # 3. A token, a client certificate with its key, or both.
    if status.get("token"):
        found["token"] = _valid_token(str(status["token"]), f"{place}, token")
    certificate, key = status.get("clientCertificateData"), status.get("clientKeyData")
    if certificate and key:
        found["client-certificate-data"] = base64.b64encode(str(certificate).encode()).decode()
        found["client-key-data"] = base64.b64encode(str(key).encode()).decode()
    if not found:
        raise CredentialsError(f"{place} returned neither a token nor a client certificate with its key")
    return found, lifetime
