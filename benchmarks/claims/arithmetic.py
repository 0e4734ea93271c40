"""Parameters, powers, and what the chapter reads off its own figures."""

import math
from collections.abc import Iterator
from dataclasses import replace

from scipy import stats

from analysis.power import detectable_difference, difference_power, seeds_for_difference
from claims.claim import Claim
from model.counting import parameters
from model.parts.feedforward import GELUFeedForward
from model.parts.norm import RMSNorm
from model.transformer import ModelConfig

PAIR = math.sqrt(2)  # SD of the difference of two independent runs, in SDs of one
WIDE = ModelConfig(layers=24, d_model=512, vocabulary=50_000, feedforward=GELUFeedForward(2048))


def total(layers: int, d_model: int = 128, d_ff: int = 256) -> int:
    return parameters(ModelConfig(layers=layers, d_model=d_model, feedforward=GELUFeedForward(d_ff))).total


def arithmetic() -> Iterator[Claim]:
    yield from _sizes()
    yield from _ratios()
    yield from _readings()
    yield from _seeds()


def _sizes() -> Iterator[Claim]:
    rms = parameters(ModelConfig(norm=RMSNorm())).total
    yield Claim(
        "2.10", "The 12-layer model has this many parameters with LayerNorm, with RMSNorm, and so many fewer.",
        ("1,745,664", "1,742,464", "3,200", "0.18 %"), (total(12), rms, total(12) - rms, 1 - rms / total(12)),
        "counted from the configuration",
    )  # fmt: skip
    yield Claim(
        "2.14", "Parameters with 4 layers and d_ff 128, 256, 512.",
        ("558,336", "689,920", "953,088"), tuple(total(4, d_ff=d_ff) for d_ff in (128, 256, 512)), "counted",
    )  # fmt: skip
    layers = [parameters(ModelConfig(feedforward=GELUFeedForward(d_ff))) for d_ff in (128, 256, 512)]
    matrices = [4 * 128**2 + 2 * 128 * d_ff + 4 * 128 for d_ff in (128, 256, 512)]
    yield Claim(
        "2.14", "A layer has 4 d² + 2 d f + 4 d parameters, at d_ff 128, 256, 512, and as the model has them.",
        ("98,816", "131,584", "197,120", "98,816", "131,584", "197,120"),
        (*matrices, *(one.per_layer for one in layers)),
        "the formula, which leaves out the feed-forward's two biases, and the layers as they are counted",
    )  # fmt: skip
    yield Claim(
        "2.14", "Parameters of (d_model, d_ff) = (96, 552), (112, 392), (128, 256).",
        ("697,056", "697,536", "689,920"), (total(4, 96, 552), total(4, 112, 392), total(4)), "counted",
    )  # fmt: skip
    body = 24 * (4 * 512**2 + 2 * 512 * 2048)
    table = 50_000 * 512
    yield Claim(
        "2.24", "At d 512, d_ff 2048, 24 layers, 50,000 symbols: attention and feed-forward, embedding, their shares.",
        ("75,497,472", "25,600,000", "74.6 %", "25.3 %"),
        (body, table, body / parameters(WIDE).total, table / parameters(WIDE).total),
        "products, and their shares of all parameters of such a model",
    )  # fmt: skip
    large = 128_256 * 512 / parameters(replace(WIDE, vocabulary=128_256)).total
    yield Claim(
        "2.24", "With 128K symbols the embedding would be this share of it.",
        ("40 %",), (large,), "128,256 symbols, as the model that the chapter takes them from has",
    )  # fmt: skip


def _ratios() -> Iterator[Claim]:
    yield Claim(
        "2.0", "The 12-layer model has so many times the parameters of the 4-layer one.",
        ("2.8",), (total(12) / total(4),), f"{total(12):,} / {total(4):,} = {total(12) / total(4):.2f}",
    )  # fmt: skip
    yield Claim(
        "2.5", "24 layers have so many times the parameters of 6.",
        ("4",), (total(24) / total(6),),
        f"{total(24):,} / {total(6):,} = {total(24) / total(6):.2f}; of the layers alone it is 4",
    )  # fmt: skip
    yield Claim(
        "2.7", "The 2-layer model has fewer than 400,000 parameters.",
        ("yes",), (total(2) < 400_000,), f"it has {total(2):,}, the embedding included",
    )  # fmt: skip
    tied = 1200 * 128
    yield Claim(
        "2.16, 2.17", "Without tying, the 12-layer model and the 2-layer model have so many more parameters.",
        ("36 %", "36 %"), (tied / total(12), tied / total(2)),
        "the chapter says it of the model without naming its depth: it is that of 2 layers",
    )  # fmt: skip
    yield Claim(
        "2.19", "1.2 to the 48th, 0.9 to the 48th, 1 / sqrt(2 L) at 12 layers.",
        ("6,300", "0.006", "0.204"), (round(1.2**48, -2), 0.9**48, 24**-0.5), "powers (the first to hundreds)",
    )  # fmt: skip


def _readings() -> Iterator[Claim]:
    yield Claim(
        "2.2", "Gaps between post- and pre-norm at 6, 12 and 24 layers.",
        ("1.14", "1.11", "0.99"), (5.356 - 4.213, 5.357 - 4.245, 5.357 - 4.370), "its own figures subtracted",
    )  # fmt: skip
    yield Claim(
        "2.12", "From 8 to 128 characters, from 64 to 128, RoPE against learned positions at 128.",
        ("0.64", "0.066", "0.35"), (4.846 - 4.209, 4.275 - 4.209, 4.5550 - 4.2074), "its own figures subtracted",
    )  # fmt: skip
    yield Claim(
        "2.14", "Two seeds' means at d_ff 128, 256, 512, and the gap of the two at 256.",
        ("4.3199", "4.1761", "4.0254", "0.196"),
        ((4.3322 + 4.3076) / 2, (4.2740 + 4.0781) / 2 + 1e-9, (4.0160 + 4.0347) / 2 + 1e-9, 4.2740 - 4.0781),
        "its own figures; halves rounded up",
    )  # fmt: skip
    yield Claim("2.30", "Five experiments are so many runs.", ("28",), (6 + 8 + 6 + 3 + 5,), "their runs added")
    yield Claim(
        "2.11", "Never-active slots are these shares of 256.",
        ("1.6 %", "14.5 %"), (4 / 256, 37 / 256), "the nearest whole numbers of slots, 4 and 37",
    )  # fmt: skip


def _seeds() -> Iterator[Claim]:
    n, sd, gap = 2 * (0.1 / 0.05) ** 2, 0.1, 0.05
    welch = stats.nct(2 * n - 2, gap / sd * (n / 2) ** 0.5)
    critical = stats.t(2 * n - 2).ppf(0.975)
    unpaired, paired = welch.sf(critical) + welch.cdf(-critical), difference_power(int(n), sd * PAIR, gap)
    order = stats.norm.cdf(gap / (sd * PAIR / n**0.5))
    enough = seeds_for_difference(gap, sd * PAIR)
    yield Claim(
        "2.14", "2 (0.1 / 0.05)² = 8 seeds an arm tell a difference of 0.05 reliably, where runs have an SD of 0.1.",
        ("8", "yes"), (n, bool(paired >= 0.8)),
        f"with 8 such seeds a t test at 5 % finds it in {100 * unpaired:.1f} % of studies ({100 * paired:.1f} % in "
        f"pairs), and the better arm has the lower mean in {100 * order:.1f} %; the rule is one standard error. "
        f"80 % power takes {enough} pairs. What 8 find with 80 % is a difference of "
        f"{detectable_difference(8, sd * PAIR):.3f}",
    )  # fmt: skip
    yield Claim(
        "2.14", "To tell 0.05 reliably takes some dozens of seeds.",
        ("yes",), (24 <= enough <= 99,),
        f"{enough} pairs for 80 % power at an SD of 0.1; at the SD of 0.014 that the held-out loss has here, "
        f"{seeds_for_difference(gap, 0.014 * PAIR)}",
    )  # fmt: skip
