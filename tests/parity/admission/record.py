"""Send the manifests of the pairs to a real control plane, and write what it makes of them.

    KUBE_BIN=build/kube-1.36 python -m tests.parity.admission.record 36    # writes pairs-1.36.jsonl.gz
    KUBE_BIN=build/kube-1.37 python -m tests.parity.admission.record 37    # compares only

`tests/upstream/build control-plane 36` builds the binaries. A file of an older minor has only the pairs whose result
differs from that of 1.37 by what kube-scheduler reads, each with its `minor`, and those with `exempt` whose apiVersion
that minor does not serve.

The control plane is a kube-apiserver with default admission plugins and gates and a kube-controller-manager with
all controllers; no kube-scheduler and no kubelet.
"""

import argparse
import contextlib
import gzip
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from extender.k8s.kinds import KINDS
from tests.e2e.control_plane.lab.api import Api, ApiError
from tests.e2e.control_plane.lab.plane import ControlPlane
from tests.parity.admission.comparison import Pair, different_facts
from tests.parity.admission.pairs import FILE, WORKLOADS, decoded

JSON = dict[str, Any]

APPEARING = ("Pod", "ReplicaSet", "Job", "PersistentVolumeClaim", "ResourceClaim")
"""Kinds that controllers create."""

SETTLE_SECONDS = 1.5
"""Time that controllers get to create objects."""

CACHE_SECONDS = 0.2
"""Time after which admission plugins, which read from informers, know what was created or deleted."""

VOLATILE = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink")
TOKEN_VOLUME = "kube-api-access-"


class NotServed(Exception):
    """The API server does not serve the apiVersion and kind."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("minor", type=int)
    parser.add_argument("--only", default="", help="only the pairs whose id begins so; nothing is written")
    given = parser.parse_args()
    pairs = [json.loads(line) for line in gzip.decompress(FILE.read_bytes()).splitlines()]
    pairs = [pair for pair in pairs if pair["id"].startswith(given.only)]
    found = []
    with recording_plane() as api:
        for pair in pairs:
            mine, differs = recorded(api, pair), []
            if not mine.get("exempt"):
                differs = different_results(mine, pair)
            if differs or (mine.get("exempt") and not pair.get("exempt")):
                found.append({**mine, "minor": given.minor})
                sys.stdout.write(f"{pair['id']}: {'; '.join(differs) or mine['exempt']}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{len(found)} of {len(pairs)} differ from 1.37\n")
    if given.minor != 37 and not given.only:
        lines = "".join(json.dumps(one) + "\n" for one in found)
        FILE.with_name(f"pairs-1.{given.minor}.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))


@contextlib.contextmanager
def recording_plane() -> Iterator[Api]:
    """A control plane with default admission and all controllers."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ControlPlane(Path(folder) / "plane", controllers=("*",), plugins_off="", kubelet=False) as plane,
    ):
        yield plane.api


# --- one pair ---------------------------------------------------------------------------------------------------------


def recorded(api: Api, pair: Pair) -> Pair:
    """Send the manifest of the pair among its objects; return the pair with what comes of it, and delete everything."""
    mine: Pair = {name: pair[name] for name in ("id", "kind", "given", "sent")}
    mine |= {"stored": None, "refused": None, "also": []}
    if pair.get("exempt"):
        mine["exempt"] = pair["exempt"]
    made: list[JSON] = []
    try:
        for one in pair["given"]:
            made.append(create(api, one))
            wait_for(api, made[-1])
        time.sleep(CACHE_SECONDS if made else 0)
        before = {one["metadata"]["uid"] for one in everything(api)}
        stored = create(api, pair["sent"])
        made.append(stored)
        also = appeared(api, stored, before) if is_followed(pair) else []
        made += also
        mine["stored"], mine["also"] = stripped(stored), [stripped(one) for one in also]
        mine |= {"podsRefused": True} if are_refused(stored, also) else {}
    except NotServed as error:
        mine |= {"refused": str(error)} if pair["refused"] else {"exempt": str(error)}
    except ApiError as error:
        status = json.loads(error.body)
        mine |= {"refused": status["message"], "code": status["code"]}
    finally:
        delete_all(api, made)
    return mine


def different_results(a: Pair, b: Pair) -> list[str]:
    """What differs in two recordings of a pair by what kube-scheduler reads."""
    if (a["refused"] is None) != (b["refused"] is None):
        return [f"refused: {a['refused']}, was {b['refused']}"]
    if a["refused"] is not None:
        return []
    if a.get("podsRefused") != b.get("podsRefused"):
        return [f"podsRefused: {a.get('podsRefused')}"]
    found = []
    pairs = [("", a["kind"], a["stored"], b["stored"])] if a["kind"] in KINDS else []
    for kind in ("Pod", "PersistentVolumeClaim", "ResourceClaim"):
        of_a, of_b = ([one for one in of["also"] if one["kind"] == kind] for of in (a, b))
        if len(of_a) != len(of_b):
            found.append(f"number of {kind}s: {len(of_a)}, was {len(of_b)}")
        pairs += [(f"{kind}.", kind, one, other) for one, other in zip(of_a, of_b, strict=False)]
    for at, kind, one, other in pairs:
        found += different_facts(at, kind, decoded(kind, one), decoded(kind, other))
    # The label with a Job's generated name is another one each time.
    is_generated = "generateName" in (a["sent"].get("metadata") or {})
    return [one for one in found if not (is_generated and "job-name" in one)]


def is_followed(pair: Pair) -> bool:
    """Whether a controller may create objects because of the manifest."""
    spec = pair["sent"].get("spec") or {}
    return pair["kind"] in WORKLOADS or (
        pair["kind"] == "Pod"
        and bool(spec.get("resourceClaims") or any("ephemeral" in one for one in spec.get("volumes") or ()))
    )


def appeared(api: Api, stored: JSON, before: set[str]) -> list[JSON]:
    """The objects that controllers created because of this one, once they had time."""
    time.sleep(SETTLE_SECONDS)
    return created_for(stored, [one for one in everything(api) if one["metadata"]["uid"] not in before])


def created_for(stored: JSON, new: list[JSON]) -> list[JSON]:
    """Those of the new objects that this one owns, and claims of a StatefulSet, which have no owner."""
    own, name = stored["metadata"]["uid"], stored["metadata"]["name"]
    owners = {own}
    for _ in range(3):  # Deployment, ReplicaSet, Pod, claim
        owners |= {one["metadata"]["uid"] for one in new if not owners.isdisjoint(owners_of(one))}
    claims = [f"-{name}-{number}" for number in range(4)] if stored["kind"] == "StatefulSet" else []
    return [
        one
        for one in new
        if one["metadata"]["uid"] in owners - {own}
        or (one["kind"] == "PersistentVolumeClaim" and one["metadata"]["name"].endswith(tuple(claims)))
    ]


def everything(api: Api) -> list[JSON]:
    return [one for kind in APPEARING for one in api.list(kind)]


def are_refused(stored: JSON, also: list[JSON]) -> bool:
    """Whether a workload is stored and has no pods although it wants some: each of them was refused."""
    if stored["kind"] not in WORKLOADS or any(one["kind"] == "Pod" for one in also):
        return False
    spec = stored["spec"]
    if stored["kind"] == "Job":
        return not spec.get("suspend") and min(spec["parallelism"], spec.get("completions", 1)) > 0
    return spec.get("replicas", 0) > 0  # a DaemonSet has no pods without nodes


def owners_of(one: JSON) -> set[str]:
    return {owner["uid"] for owner in one["metadata"].get("ownerReferences") or ()}


# --- requests ---------------------------------------------------------------------------------------------------------


def create(api: Api, one: JSON) -> JSON:
    metadata = one.get("metadata") if isinstance(one.get("metadata"), dict) else {}
    try:
        path = api.path(f"{one.get('apiVersion', 'v1')}/{one['kind']}", (metadata or {}).get("namespace") or "default")
    except (ApiError, KeyError) as error:
        raise NotServed(f"{one.get('apiVersion')} {one['kind']} is not served") from error
    found: JSON = api.request("POST", path, one)
    return {"apiVersion": one.get("apiVersion", "v1"), "kind": one["kind"], **found}


def wait_for(api: Api, one: JSON) -> None:
    """Wait until a namespace has its service account, and a quota its status."""
    name = one["metadata"]["name"]
    if one["kind"] == "Namespace":
        api.wait_until(lambda: api.find("ServiceAccount", "default", name), 15, f"service account of {name}")
    elif one["kind"] == "ResourceQuota":
        path = api.path_of(one)
        api.wait_until(lambda: (api.request("GET", path).get("status") or {}).get("hard"), 15, f"status of {name}")


def delete_all(api: Api, made: list[JSON], wait: float = CACHE_SECONDS) -> None:
    """Delete the objects, owners before what they own, so that no controller creates it again."""
    order = sorted(made, key=lambda one: one["kind"] in APPEARING and bool(owners_of(one)))
    for one in (*[x for x in order if x["kind"] != "Namespace"], *[x for x in order if x["kind"] == "Namespace"]):
        path = api.path_of(one)
        with contextlib.suppress(ApiError):
            api.request("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
        if one["kind"] in ("PersistentVolumeClaim", "PersistentVolume", "Pod", "Job", "ResourceClaim"):
            with contextlib.suppress(ApiError):
                patch = {"metadata": {"finalizers": None}}
                api.request("PATCH", path, patch, "application/merge-patch+json")
    time.sleep(wait if made else 0)


# --- without what differs from run to run -----------------------------------------------------------------------------


def stripped(one: JSON) -> JSON:
    """The object without volatile fields and the token volume."""
    found: JSON = json.loads(json.dumps(one))
    for field in VOLATILE:
        if not (field == "creationTimestamp" and str(found["metadata"].get(field)).startswith("2020-")):
            found["metadata"].pop(field, None)
    for owner in found["metadata"].get("ownerReferences") or ():
        owner.pop("uid", None)
    if found["kind"] == "Pod":
        _without_token(found["spec"])
    return found


def _without_token(spec: JSON) -> None:
    if not (volumes := spec.get("volumes")):
        return
    kept = [one for one in volumes if not one["name"].startswith(TOKEN_VOLUME)]
    spec["volumes"] = kept
    if not kept:
        del spec["volumes"]
    for container in (*spec["containers"], *(spec.get("initContainers") or ())):
        mounts = [one for one in container.get("volumeMounts") or () if not one["name"].startswith(TOKEN_VOLUME)]
        container["volumeMounts"] = mounts
        if not mounts:
            del container["volumeMounts"]


if __name__ == "__main__":
    main()
