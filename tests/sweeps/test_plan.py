from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from model.corpus.baselines import unigram_loss
from model.corpus.text import Corpus, build_corpus, read_documents
from sweeps.engine.plan import make_plan, seconds_per_run
from sweeps.engine.snapshot import make_snapshot
from sweeps.engine.source import CommitState
from sweeps.engine.study import Study, StudyError


@pytest.fixture(scope="module")
def corpus(text: Path) -> Corpus:
    return build_corpus("letters.txt", read_documents(text), 12, 8)


@pytest.fixture
def study(tiny: ModuleType) -> Study:
    made: Study = tiny.study()
    return made


def test_arms_advance_together(study: Study, corpus: Corpus) -> None:
    plan = make_plan(study, corpus, [])
    assert [(run.seed, run.arm) for run in plan.runs[:4]] == [(0, "narrow"), (0, "wide"), (0, "wild"), (1, "narrow")]
    assert len({run.run_id for run in plan.runs}) == len(plan.runs) == 9


def test_only_what_is_missing_would_run(study: Study, corpus: Corpus) -> None:
    whole = make_plan(study, corpus, [])
    some = [run.run_id for run in whole.runs[:5]]
    plan = make_plan(study, corpus, [*some, "of another study"])
    assert plan.missing == whole.runs[5:]
    assert plan.recorded == set(some)
    assert make_plan(study, corpus, [run.run_id for run in whole.runs]).missing == ()


def test_more_seeds_and_fewer_arms_keep_identities(study: Study, corpus: Corpus) -> None:
    known = [run.run_id for run in make_plan(study, corpus, []).runs]
    more = make_plan(study.replace(seeds=tuple(range(5))), corpus, known)
    assert {run.seed for run in more.missing} == {3, 4}
    fewer = make_plan(study.with_arms(("wide",)), corpus, known)
    assert fewer.missing == ()


def test_steps_and_text_change_identities(study: Study, corpus: Corpus) -> None:
    known = [run.run_id for run in make_plan(study, corpus, []).runs]
    assert len(make_plan(study.with_steps(31), corpus, known).missing) == 9
    other = replace(corpus, sha256="0" * 64)
    assert len(make_plan(study, other, known).missing) == 9


def test_cohorts_hold_every_missing_run_once(study: Study, corpus: Corpus) -> None:
    plan = make_plan(study, corpus, [])
    for size in (1, 2, 4, 9, 20):
        cohorts = plan.cohorts(size)
        assert tuple(run for cohort in cohorts for run in cohort) == plan.runs
        assert max(map(len, cohorts)) <= size


def test_another_vocabulary_is_refused(study: Study, corpus: Corpus, text: Path) -> None:
    smaller = build_corpus("letters.txt", read_documents(text), 8, 8)
    with pytest.raises(StudyError, match="has a vocabulary of 12, but the text was read with 8"):
        make_plan(study, smaller, [])


def test_a_run_takes_time(study: Study, corpus: Corpus) -> None:
    assert 1e-3 < seconds_per_run(study.arms[0].recipe, corpus) < 60


def test_the_snapshot_tells_arms_apart_and_what_they_share(study: Study, corpus: Corpus) -> None:
    snapshot = make_snapshot(make_plan(study, corpus, []), corpus, "python tiny.py", CommitState("abc", True))
    assert [arm["differences"] for arm in snapshot["arms"]] == [
        {},
        {"model.feedforward.d_ff": "32"},
        {"optimizer.learning_rate": "1e+30"},
    ]
    assert "model.feedforward.d_ff" not in snapshot["held_equal"]
    assert snapshot["held_equal"]["model.d_model"] == "16"
    assert snapshot["baselines"]["unigram"] == unigram_loss(corpus.held_out[1:])
    assert len(snapshot["runs"]) == 9
    assert (snapshot["commit"], snapshot["uncommitted"]) == ("abc", True)
