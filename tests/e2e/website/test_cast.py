"""docs/casts/why.cast, the recorded terminal session."""

import json

from tests.e2e.website.cast import CAST, HEIGHT, SESSION, WIDTH, recorded


def test_the_cast_shows_what_the_commands_print():
    assert CAST.read_text(encoding="utf-8") == recorded(), "run `make media`"


def test_the_cast_is_an_asciicast():
    header, *events = map(json.loads, CAST.read_text(encoding="utf-8").splitlines())
    assert (header["version"], header["width"], header["height"]) == (2, WIDTH, HEIGHT)
    times = [time for time, _, _ in events]
    assert times == sorted(times)
    assert {code for _, code, _ in events} == {"m", "o"}
    written = "".join(data for _, code, data in events if code == "o")
    assert [command for command in SESSION.values() if f"{command}\r\n" not in written] == []
