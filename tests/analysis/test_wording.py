"""Wording: numbers are never "nan" and never "-0.000", and what is shown is near what is meant."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import wording
from analysis.intervals import Interval

ANY = st.floats(allow_nan=True, allow_infinity=True)


@given(value=st.floats(-1e6, 1e6), error=st.floats(1e-6, 1e3), signed=st.booleans())
def test_a_number_is_shown_to_within_half_its_standard_error(value: float, error: float, signed: bool) -> None:
    text = wording.number(value, error, signed=signed)
    assert abs(float(text.replace("−", "-")) - value) <= 0.5 * error + 1e-9 * abs(value)
    assert not text.startswith("−0.") or any(digit in text for digit in "123456789")


@given(value=ANY, error=ANY)
def test_no_nan_reaches_a_reader(value: float, error: float) -> None:
    texts = [wording.p_value(value), wording.share(value), wording.duration(value)]
    texts += [
        wording.span(Interval(value, error, 0.95)),
        wording.mean_and_half(value, Interval(error, error, 0.95), error),
    ]
    if math.isnan(error) or abs(error) > 1e-12 or error == 0:
        texts.append(wording.number(value, error))
    assert not any("nan" in text or "inf" in text for text in texts)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (wording.number(-0.00004, 0.01), "0.000"),
        (wording.number(0.034, 0.008, signed=True), "+0.034"),
        (wording.span(Interval(-0.052, -0.015, 0.95), 0.008, signed=True), "[−0.052, −0.015]"),
        (wording.mean_and_half(4.1518, Interval(4.1338, 4.1698, 0.95), 0.008), "4.152 ± 0.018"),
        (wording.p_value(0.0004), "< 0.001"),
        (wording.p_value(0.0123), "0.012"),
        (wording.p_value(0.634), "0.63"),
        (wording.share(0.02), "2 %"),
        (wording.share(0.12108, 1), "12.1 %"),
        (wording.share(0.476, 0), "48 %"),
        (wording.duration(61.4), "61 s"),
        (wording.duration(1860), "31 min"),
        (wording.duration(9000), "2.5 h"),
        (wording.count(1, "run"), "1 run"),
        (wording.count(1200, "run"), "1,200 runs"),
        (wording.listed(["a", "b", "c"]), "a, b and c"),
        (wording.listed(["a", "b", "c"], 3), "a, b and c"),
        (wording.listed(["a", "b", "c", "d"], 3), "a, b and 2 more"),
        (wording.listed([f"arm {i}" for i in range(1_021)], 1), "1,021 more"),
        (wording.numbers([0, 1, 2, 3, 7, 9, 8, 12]), "0–3, 7–9, 12"),
        (wording.numbers([0, 1]), "0, 1"),
        (wording.ended("One corpus"), "One corpus."),
    ],
)
def test_what_is_said(said: str, meant: str) -> None:
    assert said == meant


def test_a_number_of_unknown_error_has_four_places() -> None:
    assert wording.number(4.15, math.nan) == "4.1500"
    assert wording.number(None) == wording.number(math.nan) == wording.NOTHING
