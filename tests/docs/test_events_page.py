"""docs/events.md says what Events say of the example, and the limits of the code."""

import json
import re
from pathlib import Path
from typing import get_args

from extender.cli.commands.serve import EXAMPLE_PREEMPTION
from extender.cluster.files.manifests import example_cluster
from extender.core import engine
from extender.core.profile import UPSTREAM
from extender.core.record import record_preempt
from extender.core.snapshot.snapshot import Snapshot
from extender.server.events import correlator, recorder
from extender.server.events.event import Reason
from extender.server.events.notices import AnsweredPreemption, notices, rejecting_policies
from extender.wire.decode import decode_preempt

PAGE = (Path(__file__).parents[2] / "docs" / "events.md").read_text(encoding="utf-8")


def test_the_example_is_what_the_example_cluster_gives():
    request = decode_preempt(json.dumps(EXAMPLE_PREEMPTION).encode())
    decision = engine.preempt(Snapshot.build(example_cluster()), request.pod, request.sent, UPSTREAM)
    preemption = AnsweredPreemption(record_preempt(decision, request.sent), rejecting_policies(decision))
    first, *_ = notices(preemption, names_across_namespaces=False)
    assert f"{first.reason}  9s   kube-scheduler-extender  {first.note}\n" in PAGE


def test_every_reason_has_a_row():
    assert re.findall(r"^\| `(Preemption\w+)` ", PAGE, re.MULTILINE) == list(get_args(Reason))


def test_the_limits_are_those_of_the_code():
    minutes = correlator.SERIES_SECONDS / 60
    assert correlator.PATCH_INTERVAL_SECONDS == 60
    assert f"at most once a minute, by the next repetition; after {minutes:g} minutes without it" in PAGE
    every = 1 / correlator.OBJECT_EVENTS_PER_SECOND / 60
    assert f"{correlator.OBJECT_BURST} at once, then one in {every:g} minutes" in PAGE
    assert f"{correlator.EVENT_BURST} at once, then {correlator.EVENTS_PER_SECOND:g} per second" in PAGE
    assert f"{recorder.MAX_QUEUED_BYTES >> 20} MiB of decisions" in PAGE
    assert f"{recorder.MAX_TRIES} tries" in PAGE
    assert f"at most {recorder.STOP_TIMEOUT_SECONDS:g} s" in PAGE
    assert {f"`{result}`" for result in recorder.LABELS.values()} <= set(re.findall(r"`\w+`", PAGE))
