"""A fuzz target for the decoder: bytes in, and either a RequestError or what a second reader finds there, too.

    python -m tests.property.fuzz.decoder [--seconds 60] [--seed 1]     mutations of recorded calls
    python -m tests.property.fuzz.decoder FILE…                         these bytes, with each decoder
    python -m tests.property.fuzz.decoder --atheris [options of libFuzzer]   guided by coverage, if atheris is installed

Rule: `check` is all there is to it; the rest only finds bytes.
"""

import argparse
import importlib
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from extender.errors import RequestError, printable
from extender.wire import ExtenderBindingArgs
from extender.wire.decode import FilterRequest, PreemptRequest, decode_bind, decode_filter, decode_preempt
from tests.property.fuzz.corpus import corpus
from tests.property.fuzz.envelope import Summary, parsed, respelled, summary
from tests.property.fuzz.mutate import MARKER, Seeded, mutated, pick

DECODERS: dict[str, Callable[[bytes], FilterRequest | PreemptRequest | ExtenderBindingArgs]] = {
    "filter": decode_filter,
    "prioritize": decode_filter,
    "preempt": decode_preempt,
    "bind": decode_bind,
}
RESPELLINGS = (str.lower, str.upper, str.swapcase)


def check(verb: str, body: bytes) -> bool:
    """AssertionError, or any error but RequestError, for a bug -> was the body accepted?"""
    decode = DECODERS[verb]
    try:
        request = decode(body)
    except RequestError as error:
        check_message(str(error))
        return False
    value = parsed(body)  # what is not JSON must have been refused
    found = summary_of(request)
    assert found == summary(verb, value), "another reading of the same bytes"
    for respell in RESPELLINGS:
        try:
            again = respelled(verb, value, respell)
        except ValueError:
            break  # a number such as 1e999 in a place that is not read cannot be written again
        assert summary_of(decode(again)) == found, f"{respell.__name__}() of the keys changes what is read"
    return True


def check_message(message: str) -> None:
    """It says something, in printable characters, and repeats nothing of what was sent."""
    assert 0 < len(message) <= 250, "an error without text, or a long one"
    assert printable(message) == message, "an error that is not printable"
    assert MARKER not in message.lower(), "an error repeats what was sent"


def summary_of(request: FilterRequest | PreemptRequest | ExtenderBindingArgs) -> Summary:
    """The request in the words of `envelope.summary`."""
    if isinstance(request, ExtenderBindingArgs):
        return request.pod_namespace, request.pod_name, request.pod_uid, request.node
    metadata, spec = request.pod.metadata, request.pod.spec
    pod = metadata.name, metadata.uid, spec.priority or 0
    if isinstance(request, FilterRequest):
        return pod, request.has_whole_nodes, request.nodes
    return pod, {node: (list(offer.victims), offer.num_pdb_violations) for node, offer in request.sent.items()}


# --- finding bytes --------------------------------------------------------------------------------------------------


def generated(verb: str, seed: int) -> bytes:
    """Return the bytes of a seed, always the same."""
    choose = Seeded(seed)
    return mutated(choose, pick(choose, corpus(verb)))


def main(arguments: Sequence[str]) -> int:
    if "--atheris" in arguments:
        return _guided([one for one in arguments if one != "--atheris"])
    parser = argparse.ArgumentParser(
        prog="python -m tests.property.fuzz.decoder", description="Fuzz the decoder of extender/v1."
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="bytes to decode")
    parser.add_argument("--seconds", type=float, default=60.0, help="for how long (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="the first one (default: 1)")
    options = parser.parse_args(arguments)
    for path in options.files:
        for verb in DECODERS:
            print(f"{path} as {verb}: {'accepted' if check(verb, path.read_bytes()) else 'refused'}")  # noqa: T201
    return 0 if options.files else _for_so_long(options.seconds, options.seed)


def _for_so_long(seconds: float, seed: int) -> int:
    ends, accepted, first = time.monotonic() + seconds, 0, seed
    while time.monotonic() < ends:
        for verb in DECODERS:
            try:
                accepted += check(verb, generated(verb, seed))
            except Exception:
                print(f"found: {verb}, seed {seed}: {generated(verb, seed)[:2000]!r}", file=sys.stderr)  # noqa: T201
                raise
        seed += 1
    print(f"{(seed - first) * len(DECODERS)} bodies, {accepted} accepted, nothing found; next: --seed {seed}")  # noqa: T201
    return 0


def _guided(arguments: Sequence[str]) -> int:
    try:
        atheris: Any = importlib.import_module("atheris")
    except ImportError:
        print("error: atheris is not installed: pip install atheris", file=sys.stderr)  # noqa: T201
        return 1
    atheris.instrument_all()

    def one(data: bytes) -> None:
        verb = list(DECODERS)[data[0] % len(DECODERS)] if data else "filter"
        check(verb, data[1:])

    atheris.Setup([sys.argv[0], *arguments], one)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
