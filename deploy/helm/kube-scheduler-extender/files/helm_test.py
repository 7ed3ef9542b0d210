"""Ask the extender what its probes and its kube-scheduler ask: what `helm test` runs in a pod of the cluster.

All --pods behind --admin must be ready. With --filter-calls, one of them must have decided a /filter of
kube-scheduler; with --filter, /filter is called here, for a node of the cluster and a pod of the first profile, and
must be decided too. What was asked and what came back is printed; what stays wrong for --timeout seconds ends it with
exit code 1.

Rule: standard library only, since it runs in the extender's image as it is.
"""

import argparse
import http.client
import json
import re
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from urllib.parse import SplitResult, urlsplit

REQUEST_TIMEOUT_SECONDS = 10
RETRY_SECONDS = 1

PROFILE = re.compile(r"\bkube-scheduler .*; profiles: ([^\s,;]+)")
"""The first profile, in /readyz?verbose."""

DECIDED = re.compile(
    r'^extender_(?:answers_total\{result="(?:fits|nowhere)"|observed_answers_total\{outcome="(?:same|differs)"),'
    r'verb="filter"\} (\S+)$',
    re.MULTILINE,
)
"""Decisions, in /metrics. In mode Observe they are in the second metric, and no answer is `fits` or `nowhere`.

There pods of unknown profiles count too, which a second scheduler has none of: the extender reads its file.
"""

DECISION_HEADER = "X-Extender-Cache"
"""In every response with a decision; calls that are passed through get none (docs/wire.md)."""


class Wrong(Exception):
    """What is wrong, in a sentence for an operator."""


def main() -> int:
    """Return the exit code."""
    arguments = _arguments()
    end = time.monotonic() + arguments.timeout
    said: set[str] = set()
    if arguments.note:
        print(f"not asked: {arguments.note}")
    while True:
        try:
            for line in _ask(arguments):
                _say_once(line, said)
            print("passed")
            return 0
        except Wrong as error:
            if time.monotonic() >= end:
                print(f"FAILED: {error}")
                return 1
            _say_once(f"not yet: {error}", said)
            time.sleep(RETRY_SECONDS)


def _say_once(line: str, said: set[str]) -> None:
    if line not in said:
        print(line, flush=True)
    said.add(line)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="helm-test", description=__doc__)
    parser.add_argument("--admin", type=urlsplit, required=True, help="health checks and metrics, of all pods")
    parser.add_argument("--pods", type=int, required=True, help="number of pods that must be there")
    parser.add_argument("--server-name", help="name in the certificate of the admin listener, if it is not the host")
    parser.add_argument("--filter-calls", action="store_true", help="a /filter of kube-scheduler must be decided")
    parser.add_argument("--filter", type=urlsplit, help="address of /filter")
    parser.add_argument("--node", help="node that /filter is called for")
    parser.add_argument("--ca", help="file with the authority of the certificates")
    parser.add_argument("--certificate", help="file with the client certificate")
    parser.add_argument("--key", help="file with its key")
    parser.add_argument("--note", help="what is not asked, and why")
    parser.add_argument("--timeout", type=float, default=60, help="seconds until what is wrong is an error")
    return parser.parse_args()


def _ask(arguments: argparse.Namespace) -> Iterator[str]:
    """Ask all questions once; yield the answers. Raises Wrong."""
    addresses = _addresses(arguments.admin)
    if len(addresses) < arguments.pods:
        raise Wrong(f"only {len(addresses)} of {arguments.pods} pods have an address: {', '.join(addresses)}")
    ready = ""
    for address in addresses:
        status, _, ready = _request(arguments, arguments.admin, address, "/readyz?verbose")
        if status != 200:
            raise Wrong(f"{address} is not ready, /readyz answers {status}:\n{ready.strip()}")
        yield f"{address}: /readyz answers 200"
    if arguments.filter_calls:
        calls = {address: _filter_calls(arguments, address) for address in addresses}
        if not any(calls.values()):
            raise Wrong(
                "no pod has decided a /filter: this pod was scheduled without the extender. See the logs of "
                "kube-scheduler and of the extender, scheduler.extender and config.killSwitch in the values"
            )
        for address, count in calls.items():
            yield f"{address}: /metrics counts {count:.0f} decided calls of /filter"
    if arguments.filter:
        profile = PROFILE.search(ready)
        if profile is None:
            raise Wrong(f"/readyz names no profile; does image.tag fit the chart?\n{ready.strip()}")
        yield _filter(arguments, profile[1])


def _filter_calls(arguments: argparse.Namespace, address: str) -> float:
    status, _, body = _request(arguments, arguments.admin, address, "/metrics")
    found = DECIDED.findall(body)
    if status != 200 or not found:
        raise Wrong(f"{address} answers {status} to /metrics, without the number of /filter calls")
    return sum(map(float, found))


def _filter(arguments: argparse.Namespace, profile: str) -> str:
    """Call /filter as kube-scheduler does for a pod of the profile; return the answer. Raises Wrong.

    Any verdict on the node is right, if it was decided: of a pod that is not ours, and in mode Observe of a node that
    is not in the cluster, /filter says "accepted" too.
    """
    about = {"name": "helm-test", "namespace": "default", "uid": "helm-test"}
    container = {"name": "main", "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}}}
    pod = {"metadata": about, "spec": {"schedulerName": profile, "containers": [container]}}
    sent = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": [arguments.node]})
    address = _addresses(arguments.filter)[0]
    status, headers, body = _request(arguments, arguments.filter, address, arguments.filter.path, sent)
    where = f"/filter at {arguments.filter.netloc}"
    if status != 200:
        hint = ", tls.allowedNames has no name of the client certificate" if status == 403 else ""
        raise Wrong(f"{where} answers {status}{hint}: {body.strip()}")
    verdict = _verdict(body, arguments.node)
    if verdict is None:
        raise Wrong(f"{where} gives no verdict on node {arguments.node}: {body.strip()}")
    if DECISION_HEADER not in headers:
        raise Wrong(
            f"{where} is answered without a decision for node {arguments.node} and a pod of profile {profile}: see "
            "the log of the extender, and config.killSwitch in the values"
        )
    return f"{where} answers 200: node {arguments.node}: {verdict}"


def _verdict(body: str, node: str) -> str | None:
    """Return what an ExtenderFilterResult says of the node; None: nothing, or it is something else."""
    try:
        answer = json.loads(body)
        failed = {**(answer["FailedNodes"] or {}), **(answer["FailedAndUnresolvableNodes"] or {})}
        return "accepted" if node in (answer["NodeNames"] or ()) else failed.get(node)
    except (ValueError, KeyError, TypeError):
        return None


def _addresses(url: SplitResult) -> list[str]:
    """Return all addresses of the host. Raises Wrong if it has none (yet)."""
    try:
        found = socket.getaddrinfo(url.hostname, url.port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise Wrong(f"{url.hostname} has no address: {error.strerror}") from None
    return sorted({str(one[4][0]) for one in found})


def _request(
    arguments: argparse.Namespace, url: SplitResult, address: str, path: str, body: str | None = None
) -> tuple[int, http.client.HTTPMessage, str]:
    """Return status, headers and body of the response. Raises Wrong, with the reason, if none comes."""
    connection = http.client.HTTPConnection(url.netloc, timeout=REQUEST_TIMEOUT_SECONDS)
    where = f"{url.netloc} ({address})"
    try:
        connection.sock = _connect(arguments, url, address)
        connection.request("GET" if body is None else "POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.headers, response.read().decode(errors="replace")
    except ssl.SSLCertVerificationError as error:
        raise Wrong(f"{where} shows a certificate that is not accepted: {error.verify_message}") from None
    except (ssl.SSLError, ConnectionResetError, BrokenPipeError) as error:
        hint = "; is the client certificate of the authority in ca.crt?" if url is arguments.filter else ""
        raise Wrong(f"{where} ends the connection{hint} ({type(error).__name__}: {error})") from None
    except (OSError, http.client.HTTPException) as error:
        raise Wrong(f"{where} cannot be reached: {type(error).__name__}: {error}") from None
    finally:
        connection.close()


def _connect(arguments: argparse.Namespace, url: SplitResult, address: str) -> socket.socket:
    context = _tls(arguments, url) if url.scheme == "https" else None
    plain = socket.create_connection((address, url.port), REQUEST_TIMEOUT_SECONDS)
    if context is None:
        return plain
    name = arguments.server_name if url is arguments.admin else None
    try:
        return context.wrap_socket(plain, server_hostname=name or url.hostname)
    except OSError:
        plain.close()
        raise


def _tls(arguments: argparse.Namespace, url: SplitResult) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=arguments.ca)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # from Python 3.13 on: more than kube-scheduler asks for
    if arguments.certificate and url is arguments.filter:
        context.load_cert_chain(arguments.certificate, arguments.key)
    return context


if __name__ == "__main__":
    sys.exit(main())
