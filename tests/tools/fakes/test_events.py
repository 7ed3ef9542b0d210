"""The Events that the fake API server takes, and those that it refuses as the real one does."""

import json
from typing import Any

import pytest

from tests.fakes.api_server import FakeAPI
from tests.fakes.client import Client
from tests.fakes.events import KIND

PATH = "/apis/events.k8s.io/v1/namespaces/shop/events"


def event(**changes: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "web.1", "namespace": "shop"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "test",
        "reportingInstance": "test-0",
        "action": "Testing",
        "reason": "Tested",
        "regarding": {"kind": "Pod", "namespace": "shop", "name": "web"},
        "type": "Normal",
        "note": "a note",
    } | changes


def patch(client: Client, body: object, content_type: str = "application/merge-patch+json") -> int:
    headers = {"Content-Type": content_type}
    with client.request("PATCH", f"{PATH}/web.1", {}, headers, json.dumps(body)) as response:
        response.read()
        return response.status


def test_an_event_is_created_once(api: FakeAPI, client: Client):
    assert client.post(PATH, event())[0] == 201
    assert client.post(PATH, event())[0] == 409
    stored = api.get(KIND, "web.1", "shop")
    assert stored is not None
    assert (stored["apiVersion"], stored["kind"], stored["note"]) == ("events.k8s.io/v1", "Event", "a note")


@pytest.mark.parametrize(
    "changes",
    [
        {"type": "Error"},
        {"action": ""},
        {"reason": "x" * 129},
        {"note": "ü" * 513},
        {"eventTime": "2026-01-01T00:00:00Z"},
        {"regarding": {"namespace": "other"}},
        {"metadata": {"name": "Web"}},
        {"series": {"count": 2}},
    ],
)
def test_what_the_validation_refuses(client: Client, changes: dict[str, Any]):
    assert client.post(PATH, event(**changes))[0] == 422


def test_the_series_is_all_that_changes(api: FakeAPI, client: Client):
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}
    assert patch(client, {"series": series}) == 404
    client.post(PATH, event())
    assert patch(client, {"series": series}) == 200
    assert patch(client, {"series": series}, "application/json") == 415
    assert patch(client, {"note": "other"}) == 422
    assert patch(client, {"series": series | {"count": 1}}) == 422
    assert (api.get(KIND, "web.1", "shop") or {})["series"] == series
