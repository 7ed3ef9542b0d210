"""Compare decoding requests and encoding responses with the standard library's json on the same bytes."""

import json
from collections.abc import Callable, Iterator

from benchmarks import generate
from benchmarks.bodies import names_body, nodes_body, victims_body
from benchmarks.measure import Row, Work, in_turns
from benchmarks.world import World
from extender.wire.decode import decode_filter, decode_preempt
from extender.wire.encode import encode_filter, encode_preempt

GROUP = "wire"


def rows(world: World) -> Iterator[Row]:
    """Yield rows for the largest responses: every node passes and every candidate is kept."""
    pod, count = generate.incoming(world.plan), world.plan.nodes
    accepted = tuple(range(count))

    def answer_filter(body: bytes) -> Callable[[], bytes]:
        request = decode_filter(body)
        return lambda: encode_filter(request, accepted, {}, {})

    body = names_body(pod, world.node_names)
    yield reading(f"{count:,} names", body, decode_filter, rounds=51)
    yield writing(f"{count:,} names", answer_filter(body), rounds=51)

    body = victims_body(pod, world.candidates)
    what = f"{len(world.candidates):,} candidates, UIDs"
    yield reading(what, body, decode_preempt, rounds=15)
    yield writing(what, lambda: encode_preempt(world.candidates), rounds=15)

    body = nodes_body(pod, (generate.full_node(world.plan, row) for row in range(count)))
    yield reading(f"{count:,} whole nodes", body, decode_filter, rounds=7)
    yield writing(f"{count:,} whole nodes", answer_filter(body), rounds=7)


def reading(what: str, body: bytes, decode: Callable[[bytes], object], rounds: int) -> Row:
    own, others = in_turns([Work(lambda: decode(body)), Work(lambda: json.loads(body))], rounds)
    return Row(GROUP, f"decode {what} ({size(body)})", own, "json.loads", others)


def writing(what: str, encode: Callable[[], bytes], rounds: int) -> Row:
    answer = encode()
    value = json.loads(answer)
    own, others = in_turns([Work(encode), Work(lambda: json.dumps(value))], rounds)
    return Row(GROUP, f"encode {what} ({size(answer)})", own, "json.dumps", others)


def size(body: bytes) -> str:
    return f"{len(body) / 1e6:.2g} MB" if len(body) >= 1e5 else f"{len(body) / 1e3:.2g} kB"
