"""POST of any object with `dryRun=All`: what an API server would store, which is not stored.

Rule: without `dryRun=All` nothing is created; what is made of an object is the test's `admit`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tests.fakes import statuses
from tests.fakes.http_server import Reply
from tests.fakes.requests import Request
from tests.fakes.statuses import Refused
from tests.fakes.storage import Storage, key_of

JSON = dict[str, Any]

Admit = Callable[[JSON], Sequence[str]]
"""Changes an object as admission does, and returns warnings; Refused if it is not admitted."""

SUFFIX = "x7k2p"
"""What a generated name ends with."""


def answer(storage: Storage, request: Request, admit: Admit) -> Reply:
    """The object after `admit`, and its warnings."""
    target = request.target
    if target is None or request.params.get("dryRun") != "All":
        raise Refused(statuses.failure(405, "the fake API server creates nothing but Events"))
    obj: JSON = msgspec.json.decode(request.body)
    if obj["metadata"].get("namespace", "") != target.namespace:
        raise Refused(statuses.failure(400, "the namespace of the provided object does not match the namespace sent"))
    warnings = admit(obj)
    metadata = obj["metadata"]
    if "name" not in metadata:
        metadata["name"] = f"{metadata['generateName']}{SUFFIX}"
    kind, name = target.resource.kind, metadata["name"]
    if storage.get(kind, key_of(kind, name, target.namespace)) is not None:
        raise Refused(statuses.failure(409, f'{target.resource.plural} "{name}" already exists', "AlreadyExists"))
    metadata |= {"uid": "dry-run", "creationTimestamp": "2026-01-01T00:00:00Z"}
    texts = [text.replace("\\", "\\\\").replace('"', '\\"') for text in warnings]
    headers = {"Warning": ", ".join(f'299 - "{text}"' for text in texts)} if texts else {}
    return Reply(201, msgspec.json.encode(obj), headers)
