"""Quantities have the amounts of resource.ParseQuantity (v1.36); each case states the amount in nano-units."""

import decimal
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.k8s.quantity import MAX_INT64, MAX_NANO, NANO, QuantityError, milli_value, parse, value

ACCEPTED = {
    "a plain number counts units": ("2", 2 * NANO),
    "zero": ("0", 0),
    "n is 10^-9": ("7n", 7),
    "u is 10^-6": ("7u", 7_000),
    "m is 10^-3": ("1500m", 1_500_000_000),
    "k is 10^3": ("3k", 3_000 * NANO),
    "M is 10^6": ("3M", 3 * 10**6 * NANO),
    "G is 10^9": ("3G", 3 * 10**9 * NANO),
    "T is 10^12": ("3T", 3 * 10**12 * NANO),
    "P is 10^15": ("3P", 3 * 10**15 * NANO),
    "E is 10^18": ("3E", 3 * 10**18 * NANO),
    "Ki is 2^10": ("1Ki", 1024 * NANO),
    "Mi is 2^20": ("1Mi", 2**20 * NANO),
    "Gi is 2^30": ("1Gi", 2**30 * NANO),
    "Ti is 2^40": ("1Ti", 2**40 * NANO),
    "Pi is 2^50": ("1Pi", 2**50 * NANO),
    "Ei is 2^60": ("1Ei", 2**60 * NANO),
    "a fraction of a binary unit": ("1.5Gi", 3 * 2**29 * NANO),
    "a fraction without a leading zero": (".5", NANO // 2),
    "a point without a fraction": ("1.", NANO),
    "a point without a fraction before a suffix": ("1.Gi", 2**30 * NANO),
    "E alone is exa, as e never is": ("1E", 10**18 * NANO),
    "E with digits is an exponent": ("1E3", 1000 * NANO),
    "e with digits is an exponent": ("1e3", 1000 * NANO),
    "an exponent may have a plus": ("1e+3", 1000 * NANO),
    "a negative exponent": ("250e-3", NANO // 4),
    "an exponent may start with zeros": ("1e-07", 100),
    "leading zeros do not count": ("0001.50", 3 * NANO // 2),
    "a plus sign": ("+1", NANO),
    "a minus sign": ("-1", -NANO),
    "minus zero is zero": ("-0.0", 0),
    "below a nano is a nano": ("0.1n", 1),
    "below a nano is a nano away from zero": ("-0.1n", -1),
    "1.1n is 2n": ("1.1n", 2),
    "a binary amount is rounded after the multiplication: 10^-12 x 1024 = 1.024n": ("0.000000000001Ki", 2),
    "spaces around it are trimmed": (" 1Gi \n", 2**30 * NANO),
    "non-breaking spaces are trimmed, too": ("\u00a01\u3000", NANO),
    "8Ei = 2^63 is capped at 2^63-1": ("8Ei", MAX_NANO),
    "-8Ei is capped, too": ("-8Ei", -MAX_NANO),
    "7Ei is not": ("7Ei", 7 * 2**60 * NANO),
    "a fraction just below the cap is kept": ("9223372036854775806.5", (MAX_INT64 - 1) * NANO + NANO // 2),
    "a long number with a fraction is capped, too": ("9920857615490034326614.569757118493m", MAX_NANO),
    "10E is above int64 and capped (divergence: 0 upstream)": ("10E", MAX_NANO),
    "a bare sign is 0, as upstream has it": ("-", 0),
    "a bare point is 0, as upstream has it": (".", 0),
    "a bare suffix is 0, as upstream has it": ("Ki", 0),
    "a bare exponent is 0, as upstream has it": ("e-9", 0),
    "zeros are digits": ("00Ei", 0),
    "an int": (3, 3 * NANO),
    "a float": (0.1, NANO // 10),
    "a float that prints with an exponent": (1e22, MAX_NANO),
    "a small float that prints with an exponent: 1.5e-07": (1.5e-7, 150),
    "an int beyond int64": (-(10**30), -MAX_NANO),
}

REFUSED = {
    "nothing": "",
    "only spaces": "  ",
    "an exponent without digits": "1e",
    "an exponent with only a sign": "1e-",
    "a hexadecimal number": "0x1",
    "full-width digits": "\uff11",
    "Arabic digits": "\u0661",
    "a space before the suffix": "1 Gi",
    "two signs": "--1",
    "a sign after the number": "1-",
    "two points": "1.2.3",
    "two points in a row": "..",
    "not a number": "NaN",
    "infinity": "inf",
    "a B after the suffix": "1Gib",
    "a lower-case g": "1gi",
    "a lower-case binary suffix": "1mi",
    "an upper-case K": "1K",
    "an i alone": "1i",
    "two suffixes": "1mm",
    "a suffix and an exponent": "1Ki5",
    "a fraction in an exponent": "1e1.5",
    "an exponent beyond int64": "1e99999999999999999999",
    "an underscore": "1_000",
    "a comma": "1,5",
    "a zero byte": "1\x00",
    "a separator that Python, but not Go, calls a space": "1\x1f",
    "a lone surrogate": "1\ud800",
    "a suffix without digits that upstream reads digit by digit": "Ei",
    "the other one": ".Pi",
    "a tiny exponent without digits": "e-10",
    "true": True,
    "a float that is not a number": float("nan"),
    "an infinite float": float("-inf"),
}


@pytest.mark.parametrize(("text", "nano"), ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(text, nano):
    assert parse(text) == nano


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_rejected(text):
    with pytest.raises(QuantityError, match="is not a quantity"):
        parse(text)


def test_the_message_has_the_text_and_the_reason():
    with pytest.raises(QuantityError) as caught:
        parse("1Kib")
    assert str(caught.value) == (
        "'1Kib' is not a quantity: it must be a number with at most one suffix, such as 2, 500m, 1.5Gi or 1e3"
    )


def test_the_message_escapes_and_truncates_the_text():
    with pytest.raises(QuantityError) as caught:
        parse("\n\x1b[31m" + "x" * 900)
    message = str(caught.value)
    assert message.startswith(r"'\n\x1b[31mxxx")
    assert len(message) < 250


def test_the_message_can_name_the_resource():
    assert str(QuantityError("x", "why", of="cpu")) == "'x' is not a quantity of cpu: why"


def test_more_than_a_thousand_characters_are_rejected():
    assert parse("0" * 999 + "1") == NANO
    with pytest.raises(QuantityError, match="it has 1001 characters, at most 1000"):
        parse("0" * 1001)


@pytest.mark.parametrize(
    ("text", "nano"),
    [
        pytest.param("1e999999999", MAX_NANO, id="a huge number is capped"),
        pytest.param("-1e9223372036854775807", -MAX_NANO, id="a huge negative number is capped"),
        pytest.param("1e-999999999", 1, id="a tiny number is one nano"),
        pytest.param("0e999999999", 0, id="a huge exponent of nothing is nothing"),
        pytest.param(
            "1" * 990 + "e-980", int("1" * 10) * NANO + 111_111_112, id="many digits, most of them a fraction"
        ),
        pytest.param("0." + "0" * 990 + "1Ei", 1, id="many zeros after the point"),
    ],
)
def test_absurd_exponents_cost_nothing(text, nano):
    """Computed as written, 10^999999999 would take minutes and half a gigabyte."""
    assert parse(text) == nano


ROUNDED = {
    "exact units stay": ("3", 3, 3_000),
    "half a unit is one": ("500m", 1, 500),
    "a nano more is one more": ("1.000000001", 2, 1_001),
    "a nano is one": ("1n", 1, 1),
    "nothing is nothing": ("0", 0, 0),
    "-1.5 goes away from zero": ("-1.5", -2, -1_500),
    "-1n goes away from zero": ("-1n", -1, -1),
    "the largest amount has no milli-units in int64": ("8Ei", MAX_INT64, MAX_INT64),
    "the smallest neither": ("-8Ei", -MAX_INT64, -MAX_INT64),
    "9223372036854775.807 is the last that has": ("9223372036854775.807", 9223372036854776, MAX_INT64),
}


@pytest.mark.parametrize(("text", "units", "millis"), ROUNDED.values(), ids=ROUNDED)
def test_value_and_milli_value(text, units, millis):
    assert value(parse(text)) == units
    assert milli_value(parse(text)) == millis


def test_a_sum_beyond_int64_is_the_largest_int64():
    assert value(2 * MAX_NANO) == MAX_INT64
    assert milli_value(-2 * MAX_NANO) == -MAX_INT64


# --- properties: the same by another way, decimal arithmetic --------------------------------------------------------

FACTORS = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{suffix + "i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}
EXACT = decimal.Context(prec=200, rounding=decimal.ROUND_UP)


def by_decimal(number: str, factor: Decimal) -> int:
    nano = EXACT.multiply(EXACT.multiply(Decimal(number), factor), Decimal(NANO))
    whole = int(nano.to_integral_value(rounding=decimal.ROUND_UP))  # away from zero
    return max(-MAX_NANO, min(whole, MAX_NANO))


numbers = st.from_regex(r"[+-]?([0-9]{1,25}(\.[0-9]{0,25})?|\.[0-9]{1,25})", fullmatch=True).map(str)


@given(numbers, st.sampled_from(sorted(FACTORS)))
def test_suffixes_agree_with_decimal_arithmetic(number, suffix):
    assert parse(number + suffix) == by_decimal(number, FACTORS[suffix]), "the sum differs from decimal arithmetic"


@given(numbers, st.sampled_from("eE"), st.integers(-40, 40), st.booleans())
def test_exponents_agree_with_decimal_arithmetic(number, letter, exponent, plus):
    sign = "+" if plus and exponent >= 0 else ""
    assert parse(f"{number}{letter}{sign}{exponent}") == by_decimal(number, Decimal(10) ** exponent), (
        "the amount differs from decimal arithmetic"
    )


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_agree_with_decimal_arithmetic(number):
    assert parse(number) == by_decimal(repr(number), Decimal(1)), "the amount differs from decimal arithmetic"


@given(st.integers())
def test_an_int_is_what_its_digits_are(number):
    assert parse(number) == parse(str(number)), "an int is another amount than its digits"


@given(st.text(max_size=12) | st.text("0123456789.+-eEinumkKMGTP ", max_size=12))
def test_any_text_is_an_amount_within_the_cap_or_rejected(text):
    try:
        nano = parse(text)
    except QuantityError:
        return
    assert -MAX_NANO <= nano <= MAX_NANO, "beyond the cap"


@given(st.integers(-2 * MAX_NANO, 2 * MAX_NANO))
def test_values_are_the_nearest_above_in_int64(nano):
    units, millis = value(nano), milli_value(nano)
    assert (value(-nano), milli_value(-nano)) == (-units, -millis), "negative amounts round otherwise"
    if abs(nano) <= MAX_NANO:
        assert 0 <= abs(units) * NANO - abs(nano) < NANO, "not the nearest unit above"
    if abs(millis) < MAX_INT64:
        assert 0 <= abs(millis) * 10**6 - abs(nano) < 10**6, "not the nearest milli-unit above"
        assert value(millis * 10**6) == units, "milli-units mean another amount"


@given(st.integers(0, MAX_NANO), st.integers(0, MAX_NANO))
def test_more_is_never_less(one, other):
    low, high = sorted((one, other))
    assert value(low) <= value(high), "the larger amount has the smaller value"
    assert milli_value(low) <= milli_value(high), "the larger amount has fewer milli-units"
