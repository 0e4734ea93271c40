"""Everything that `calibration.py` measures, by section."""

from collections.abc import Mapping
from itertools import combinations, product

from analysis.tuning import FEWEST_RANGE_SEEDS
from rates.bars import Bar
from rates.fixed import at_truth_0, equivalence, false_verdicts, shift_alarms
from rates.habits import HABITS, peeking
from rates.looks import EVERY, LOOKS, e_claims, false_differences, false_equivalents, found_by, spend_claims
from rates.many import family, planned_power
from rates.rivals import METHODS, Rival, percentile
from rates.scenarios import MAIN, NORMAL, RECORDED, RESPONSES, SD_RATIO, SEEDS, SKEW_A, STRESS
from rates.tuned import about_the_best, about_the_best_widened, about_the_selected, best_of_tuned, usable

BARS, RIVALS, ALSO = "bars", "rivals", "habits"
SHOWN = {s.name: s for s in (NORMAL, SD_RATIO, *MAIN[2:], STRESS)}
HEALTHY = MAIN[:-1]  # without runs that went astray
SHOWN_SEEDS = (3, 5, 10, 20)
STEEP = [response.steeper(times) for response in RESPONSES for times in (1, 10)]
EQUAL_RANGES = [pair for one in STEEP for pair in ((one, one), (one, one.mirrored()))]
RANGES = [pair for pair in combinations(STEEP, 2) if not any(one.diverging_P.any() for one in pair)]
CLIFFS = [pair for pair in combinations(STEEP, 2) if any(one.diverging_P.any() for one in pair)]


def sections() -> Mapping[str, list[Bar]]:
    """The bars; what people use today, a bar without a bound for each method, scenario and number of seeds; habits."""
    return {
        BARS: [*_fixed(), *_looked_at(), *_many(), *_tuned(), *_controls()],
        RIVALS: [_rival(*key) for key in product(METHODS, SHOWN, SHOWN_SEEDS)],
        ALSO: [Bar(name, {"": cell}) for name, cell in HABITS.items()],
    }


def rival_name(method: str, scenario: str, n: int) -> str:
    return f"{method}, {scenario}, {n} seeds"


def _rival(method: Rival, scenario: str, n: int) -> Bar:
    methods = (None, method.claims) if method.paired else (method.claims, None)
    return Bar(rival_name(method.name, scenario, n), at_truth_0([SHOWN[scenario]], [n], [0.5], *methods), slow=25)


def _fixed() -> list[Bar]:
    steady, low = (NORMAL, SD_RATIO), (-0.5, 0.0, 0.5)
    welch_3 = at_truth_0(steady, [3], paired_method=None, covered=True)
    welch_more = at_truth_0(steady, SEEDS[1:], paired_method=None, covered=True)
    pairs = at_truth_0(steady, unpaired_method=None, covered=True)
    return [
        Bar("false difference: main scenarios", at_truth_0(MAIN), high=5.5),
        Bar("false difference: paired normal, not too few", at_truth_0([NORMAL], unpaired_method=None), low=4.5),
        Bar("false difference: diverged runs recorded", at_truth_0([RECORDED], unpaired_method=None), high=5.5),
        Bar("false difference: one arm skewed", at_truth_0([SKEW_A]), high=6.5),
        Bar("false difference: stress", at_truth_0([STRESS]), high=11),
        Bar("false difference: stress, correlation up to 0.5", at_truth_0([STRESS], rhos=low), high=11),
        Bar("coverage: lowest", welch_3 | welch_more | pairs, low=94),
        Bar("coverage: highest, Welch, 3 seeds", welch_3, high=97.5),
        Bar("coverage: highest, Welch, 5 seeds or more", welch_more, high=96.5),
        Bar("coverage: highest, pairs", pairs, high=96.5),
        Bar("false verdict: main scenarios", false_verdicts(MAIN), high=5.8, slow=2),
        Bar("false verdict: one arm skewed", false_verdicts([SKEW_A]), high=8),
        Bar("false verdict: stress", false_verdicts([STRESS]), high=15),
        Bar("false verdict: stress, correlation up to 0.5", false_verdicts([STRESS], rhos=low), high=15),
        Bar("false verdict: stress, unpaired", false_verdicts([STRESS], rhos=()), high=15),
        Bar("equivalence found: margin 1 SD, 8 seeds", equivalence(8), low=87),
        Bar("equivalence found: margin 1 SD, 10 seeds", equivalence(10), low=94),
        Bar("alarm on healthy pairs: 3 seeds", shift_alarms(HEALTHY, [3]), high=1),
        Bar("alarm on healthy pairs: 5 seeds or more", shift_alarms(HEALTHY, SEEDS[1:]), high=0.1),
        Bar("alarm where 5 % end at +20 SD: 5 seeds or more", shift_alarms([MAIN[-1]], SEEDS[1:])),
    ]


def _looked_at() -> list[Bar]:
    power, pairs = found_by(spend_claims)
    return [
        Bar("spending: false difference, main scenarios", false_differences(MAIN), high=5.6, slow=2),
        Bar("spending: false difference, one arm skewed", false_differences([SKEW_A]), slow=2),
        Bar("spending: false difference, stress", false_differences([STRESS]), slow=2),
        Bar("spending: false equivalence at the margin", false_equivalents(MAIN), high=5.5, slow=10),
        Bar("spending: difference of 1 SD found", power, low=96),
        Bar("spending: mean pairs until it is found", pairs, high=13, unit="pairs"),
        Bar("e-process: false difference, main scenarios", false_differences(MAIN, [EVERY], e_claims), high=3),
        Bar("e-process: false difference, stress", false_differences([STRESS], [EVERY], e_claims)),
    ]


def _many() -> list[Bar]:
    return [
        Bar("nine arms: any false rejection", family(), high=5.6, slow=10),
        Bar("plan by the upper SD: power", planned_power(), low=85, slow=10),
    ]


def _tuned() -> list[Bar]:
    bars = [Bar("tuned: about the selected points", best_of_tuned(about_the_selected, 5), high=6, slow=10)]
    for what, claim, high, judging in (
        ("", about_the_best, 10.5, (5, 10, 20)),
        (", widened", about_the_best_widened, 5.0, (5, 10, 20, 200)),
    ):
        for n in judging:
            name = f"tuned: about the best on the grid{what}, judged with {n}"
            bars.append(Bar(name, best_of_tuned(claim, n), high=high, slow=10))
    for n, high, slow in ((3, 11.5, 10), (5, 8.5, 10), (10, 8.5, 25)):
        name = f"usable range: false difference, {n} seeds" + ", no claim is made" * (n < FEWEST_RANGE_SEEDS)
        bars.append(Bar(name, usable(EQUAL_RANGES, [n]), high=high, slow=slow))
    bars.append(Bar("usable range: coverage, 5 and 10 seeds", usable(RANGES, [5, 10], covered=True), low=91, slow=25))
    for n in (5, 10):
        name = f"usable range: coverage, 60 % diverge at a point, {n} seeds"
        bars.append(Bar(name, usable(CLIFFS, [n], covered=True), low=91, slow=25))
    return bars


def _controls() -> list[Bar]:
    bootstrap = at_truth_0([NORMAL], [3], [0.0], None, percentile(pairs=True), covered=True)
    return [
        Bar("negative control: percentile bootstrap, coverage", bootstrap, high=90, slow=25),
        Bar("negative control: t-test at every look", {f"normal, looks {LOOKS}": peeking(NORMAL, LOOKS)}, low=15),
    ]
