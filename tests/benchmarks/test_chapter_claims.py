"""The chapter's numbers: each way of computing one against another way, and the committed page against the script."""

import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from chapter_claims import PAGE, page, row
from claims import frequencies as text
from claims import gradients
from claims.arithmetic import arithmetic
from claims.claim import Claim
from claims.growth import measured, predicted
from claims.numerics import layer_norm, numerics, rms_norm

from analysis.markdown import one_line
from model.initializer import Initializer, PlainNormal, ScaledNormal
from model.parts.block import PostNorm, PreNorm

CLOSED = [*numerics(), *arithmetic()]


def claim(printed: tuple[str, ...], found: tuple[float | bool, ...], within: float = 0.0) -> Claim:
    return Claim("1", "it", printed, found, "so", within=within)


def said(part: str) -> Claim:
    (one,) = [one for one in CLOSED if part in one.says]
    return one


@pytest.mark.parametrize(
    ("printed", "found", "held"),
    [
        (("1.01",), (1.0149,), "holds"),
        (("1.01",), (1.0151,), "does not hold"),
        (("1.01", "2"), (1.0149, 3.0), "holds in part"),
        (("-0.447", "1,745"), (-0.44721, 1745), "holds"),
        (("74.6 %",), (0.7461,), "holds"),
        (("74.6 %",), (0.7471,), "does not hold"),
        (("0.000",), (-0.0001,), "holds"),
        (("5e-4",), (0.000549,), "holds"),
        (("5e-4",), (0.000551,), "does not hold"),
        (("5e-4",), (5.0,), "does not hold"),
        (("yes", "yes"), (True, False), "holds in part"),
        (("yes",), (False,), "does not hold"),
    ],
)
def test_a_claim_is_decided_by_the_digits_that_were_printed(
    printed: tuple[str, ...], found: tuple[float | bool, ...], held: str
) -> None:
    assert claim(printed, found).held == held


def test_a_single_draw_holds_within_its_share() -> None:
    assert claim(("2.00", "2.00"), (2.09, 2.11), within=0.05).held == "holds in part"


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=8), st.sampled_from([1e-5, 1e-3, 1e-1]))
def test_the_formulas_are_pytorch_s_layers(values: list[float], eps: float) -> None:
    x = torch.tensor(values, dtype=torch.float64)
    shape = (len(values),)
    np.testing.assert_allclose(layer_norm(values, eps), torch.nn.functional.layer_norm(x, shape, eps=eps), atol=1e-9)
    np.testing.assert_allclose(rms_norm(values, eps), torch.nn.functional.rms_norm(x, shape, eps=eps), atol=1e-9)


def test_the_table_of_eps() -> None:
    """By hand: three components lie d / 4 below the mean and one 3 d / 4 above, so the variance is 3 d² / 16."""
    d = 1e-3
    expected = [d / 4 / (3 * d**2 / 16 + eps) ** 0.5 for eps in (1e-5, 1e-3, 1e-1)]
    one = said("[1, 1, 1, 1.001]")
    assert one.found == pytest.approx(expected, rel=1e-9)
    assert one.held == "does not hold"


def test_what_shifts_by_a_hundred() -> None:
    assert said("RMSNorm of the same plus 100").texts == ("0.971", "0.990", "1.009", "1.028")
    assert said("LayerNorm of the same plus 100").held == "holds"
    assert said("Mean and variance").texts == ("0.913", "0.167")


def test_the_rule_for_seeds_has_the_power_that_simulation_gives() -> None:
    rng = np.random.default_rng(0)
    a, b = 0.05 + 0.1 * rng.normal(size=(40_000, 8)), 0.1 * rng.normal(size=(40_000, 8))
    difference, error = a.mean(1) - b.mean(1), ((a.var(1, ddof=1) + b.var(1, ddof=1)) / 8) ** 0.5
    power = (abs(difference) > 2.1447867 * error).mean()  # t with 14 degrees of freedom
    how = said("8 seeds an arm").how
    told = re.search(r"finds it in ([\d.]+) % of studies.*lower mean in ([\d.]+) %", how)
    assert told is not None
    assert float(told[1]) / 100 == pytest.approx(power, abs=4 * (0.15 * 0.85 / 40_000) ** 0.5)
    assert float(told[2]) / 100 == pytest.approx((difference > 0).mean(), abs=4 * (0.16 * 0.84 / 40_000) ** 0.5)


@pytest.mark.parametrize(("initializer", "scaled"), [(ScaledNormal(), True), (PlainNormal(), False)])
def test_the_recursion_is_what_models_do(initializer: Initializer, scaled: bool) -> None:
    variances = predicted(6, scaled)
    growth, _ = measured(6, initializer, PreNorm())
    assert growth == pytest.approx((variances[-1] / variances[1]) ** 0.5, rel=0.03)
    assert variances[0] == pytest.approx(2 * 0.02**2)


def test_the_scaling_bounds_the_growth_and_its_lack_does_not() -> None:
    shallow, deep = predicted(12, True), predicted(200, True)
    assert deep[-1] / deep[1] < 1.2 * shallow[-1] / shallow[1]
    assert predicted(200, False)[-1] > 10 * predicted(12, False)[-1]


@pytest.mark.corpus
def test_the_gradient_of_post_norm_is_an_output_row_over_the_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    """In closed form: where the last norm reads what a norm gave, it only takes two of 128 directions from the row of
    the right symbol, whose entries have SD 0.02, and the loss is a mean over 8 x 64 targets."""
    monkeypatch.setattr(gradients, "DEPTHS", (2, 4))
    monkeypatch.setattr(gradients, "SEEDS", 2)
    found = gradients.measured.__wrapped__(ScaledNormal(), PostNorm())
    assert found.ratio == pytest.approx(np.ones((2, 2)), abs=0.01)
    assert found.first == pytest.approx(np.full((2, 2), 0.02 / 512 * (126 / 128) ** 0.5), rel=0.03)


def test_a_text_of_few_symbols_has_frequencies_that_reach_the_stuck_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim about stuck runs can come out either way: on a text of 100 symbols in equal shares it holds."""
    rng = np.random.default_rng(0)
    for symbols, held in ((100, "holds"), (2000, "does not hold")):
        poems = ["".join(chr(0x4E00 + i) for i in rng.integers(0, symbols, 400)) for _ in range(50)]
        monkeypatch.setattr(text.tang, "documents", lambda poems=poems: poems)
        *_, stuck = text.frequencies()
        assert stuck.held == held


def written(one: Claim) -> bool:
    return "| " + " | ".join(map(one_line, row(one))) + " |" in PAGE.read_text().splitlines()


@pytest.mark.corpus
def test_the_committed_page_has_what_the_poems_give_today() -> None:
    assert all(map(written, text.frequencies()))


def test_the_committed_page_has_what_the_script_gives_today() -> None:
    """Every row that is arithmetic. Those that draw models depend on the machine's rounding and are not drawn again."""
    for one in CLOSED:
        assert written(one), one.says
    lines = PAGE.read_text().splitlines()
    rows = [line for line in lines if line.startswith("| 2.")]
    counts = Counter(line.split(" | ")[4] for line in rows)
    words = f"Of {len(rows)} claims {counts['holds']} hold, {counts['holds in part']} hold in part, "
    assert words + f"{counts['does not hold']} do not hold." in lines


def test_the_page_counts_its_verdicts() -> None:
    made = page([claim(("1",), (1.0,)), claim(("1",), (2.0,)), claim(("1",), (3.0,))])
    assert "Of 3 claims 1 hold, 0 hold in part, 2 do not hold." in made
