"""What a study asks for next, from what is recorded: the grid, then the judged seeds, from look to look.

A pure function of the study and its records. So the same command again asks for nothing, and a study that was stopped
anywhere goes on as if it had not been.
"""

from analysis.compare import Analysis, analyse
from analysis.design import JUDGE
from analysis.records import Records
from analysis.scorings import scored
from analysis.tuning import selections, setting
from analysis.verdict import Verdict
from model.corpus.text import Corpus
from sweeps.engine.plan import Plan, judged_runs, make_plan
from sweeps.engine.snapshot import make_snapshot
from sweeps.engine.study import Study


def asked(study: Study, corpus: Corpus, records: Records) -> Plan:
    """All runs that are asked for so far; when none of them is missing, the study is finished.

    An arm that is described but not compared has nothing to decide, and stays at the first look.
    Raises StudyError as `make_plan` does, RecordError for records that cannot be read.
    """
    recorded = records.recorded()
    plan = make_plan(study, corpus, recorded)
    selected: dict[str, float] = {}
    if study.tune:
        if plan.missing:
            return plan
        snapshot = make_snapshot(plan, corpus)
        selected = selections(records.planned_runs(snapshot), snapshot) or {}
    tried = plan.runs if study.tune else ()
    counts = {arm.name: 0 for arm in study.arms}
    going_on = list(counts)
    for look in study.looks or (len(study.seeds),):
        counts |= dict.fromkeys(going_on, look)
        runs = tried + judged_runs(study, corpus, counts, selected)
        plan = Plan(study, runs, frozenset(recorded) & {run.run_id for run in runs}, selected)
        if plan.missing:
            return plan
        going_on = open_arms(plan, corpus, records)
        if not going_on:
            return plan
    return plan


def open_arms(plan: Plan, corpus: Corpus, records: Records) -> list[str]:
    """Arms of the comparisons and contrasts that the runs of `plan` leave undecided; none in a study without looks,
    which decides once."""
    study = plan.study
    if not study.looks:
        return []
    snapshot = make_snapshot(plan, corpus)
    runs, curves = records.planned(snapshot)
    compared = analyse(runs, snapshot, noise=False).comparisons
    contrasts = scored(runs, curves, snapshot).contrasts
    arms = {arm for c in compared if c.verdict is Verdict.UNDECIDED for arm in (c.baseline, c.arm)}
    arms |= {arm for c in study.contrasts if contrasts[c.name].verdict is Verdict.UNDECIDED for arm in c.arms}
    return sorted(arms)


def judged_seeds(plan: Plan) -> dict[str, list[int]]:
    """The seeds that each arm is judged on so far, none while the grid is under way."""
    return {arm.name: [r.seed for r in plan.runs if r.arm == arm.name and r.stage == JUDGE] for arm in plan.study.arms}


def told(before: Plan, after: Plan, analysis: Analysis) -> list[str]:
    """What a person is told when `after` asks for more than `before`: the points selected, the verdicts of a look."""
    study, seeds, more = after.study, judged_seeds(before), judged_seeds(after)
    lines = []
    if study.tune and after.selected and not before.selected:
        points = ", ".join(f"{point:g} for {arm}" for arm, point in after.selected.items())
        lines.append(f"Selected {setting(study.tune.key)}s: {points}. Judged on other seeds from here on.")
    look = max(map(len, seeds.values()))
    if look and max(map(len, more.values())) > look:
        stood = "; ".join(
            f"{c.arm} {c.verdict}{' and goes on' if len(more[c.arm]) > look else ''}" for c in analysis.comparisons
        )
        lines.append(f"Look at {look} seeds: {stood or 'contrasts are undecided'}.")
    return lines
