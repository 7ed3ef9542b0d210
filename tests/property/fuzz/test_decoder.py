"""The fuzz target of the decoder, run with generated bodies, and on bodies that it must tell apart."""

import json

import pytest

from extender.errors import RequestError
from extender.wire.decode import decode_filter
from tests.property.fuzz import decoder
from tests.property.fuzz.corpus import corpus
from tests.property.fuzz.spots import spots

EVERY_VERB = pytest.mark.parametrize("verb", decoder.DECODERS)


@EVERY_VERB
def test_the_decoder_refuses_with_a_reason_or_reads_what_a_second_reader_does(verb, seeds):
    accepted = [decoder.check(verb, decoder.generated(verb, seed)) for seed in seeds(50, 600, 100_000)]
    assert 0.1 < sum(accepted) / len(accepted) < 0.9, "nearly all bodies are refused, or nearly none"


@EVERY_VERB
def test_what_was_recorded_is_accepted(verb):
    assert all(decoder.check(verb, body) for body in corpus(verb))


def test_a_decoder_that_lets_another_error_out_is_found(monkeypatch):
    def broken(body):
        json.loads(body)
        return decode_filter(body)

    monkeypatch.setitem(decoder.DECODERS, "filter", broken)
    with pytest.raises(ValueError, match="Expecting value"):
        decoder.check("filter", b"nothing")


def test_a_decoder_that_reads_only_exact_keys_is_found(monkeypatch):
    def exact(body):
        if b'"pod"' in body:
            raise RequestError("Pod is missing")
        return decode_filter(body)

    monkeypatch.setitem(decoder.DECODERS, "filter", exact)
    with pytest.raises(RequestError):
        decoder.check("filter", corpus("filter")[0])


def test_a_message_that_repeats_what_was_sent_is_found():
    with pytest.raises(AssertionError):
        decoder.check_message("Pod.metadata.labels[hunter2]: expected a string")


def test_the_target_runs_as_a_command(capsys, tmp_path):
    assert decoder.main(["--seconds", "0.2"]) == 0
    assert "nothing found" in capsys.readouterr().out
    (tmp_path / "body").write_bytes(corpus("bind")[0])
    assert decoder.main([str(tmp_path / "body")]) == 0
    assert capsys.readouterr().out.count("accepted") == 1


def test_every_value_of_a_text_is_found_where_it_stands():
    text = b'{"a" : [1, "x,]\\"", {}], "b":{"c":null} }'
    found = [(text[spot.key : spot.key_end], text[spot.start : spot.end]) for spot in spots(text)]
    assert found == [
        (b"", b"1"),
        (b"", b'"x,]\\""'),
        (b"", b"{}"),
        (b'"a"', b'[1, "x,]\\"", {}]'),
        (b'"c"', b"null"),
        (b'"b"', b'{"c":null}'),
        (b"", text),
    ]
