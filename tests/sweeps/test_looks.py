"""A grid, and seeds until it is decided, with a real Ray and a real MLflow store: "stuck" hardly learns at any rate,
"twin" is the baseline with other seeds."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

from analysis.records import Records
from model.seeding import Follow, Streams
from sweeps.engine.grid import Grid
from sweeps.engine.study import Arm, Study
from tests.sweeps.folders import children, study_in

Give = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def looked(tiny: ModuleType) -> Callable[[], Study]:
    def make() -> Study:
        study: Study = tiny.study()
        recipe = study.arms[0].recipe
        stuck = replace(recipe, optimizer=replace(recipe.optimizer, eps=1.0))
        twin = replace(recipe, streams=Streams(Follow(1000), Follow(1000)))
        arms = (Arm("base", recipe, ""), Arm("stuck", stuck, ""), Arm("twin", twin, ""))
        grid = Grid("optimizer.learning_rate", (1e-4, 1e-2), seeds=3)
        return study.replace(arms=arms, baseline="base", varies=("optimizer.eps", "streams"), margin=1e-6, tune=grid)

    return make


LOOKED = ("--until-decided", "--max-seeds", "5")


@pytest.fixture(scope="module")
def decided(
    tmp_path_factory: pytest.TempPathFactory,
    empty_store: Path,
    give_in: Give,
    looked: Callable[[], Study],
    cluster: str,
) -> tuple[Path, str]:
    """The folder of a tuned study until it is decided, and what was printed."""
    folder = tmp_path_factory.mktemp("decided")
    shutil.copy(empty_store, folder / "mlflow.db")
    code, out, err = give_in(folder, *LOOKED, "--address", cluster, study=looked)
    assert (code, err) == (0, ""), out
    return folder, out


def stages(folder: Path) -> pd.DataFrame:
    records = Records(study_in(folder))
    return records.planned_runs(records.snapshot())


def test_a_decided_arm_gets_no_more_seeds(decided: tuple[Path, str]) -> None:
    frame = stages(decided[0])
    judged = frame[frame["stage"] == "judge"]
    assert {arm: list(own["seed"]) for arm, own in judged.groupby("arm")} == {
        "base": [0, 1, 2, 3, 4],
        "stuck": [0, 1, 2],
        "twin": [0, 1, 2, 3, 4],
    }
    out = decided[1]
    assert "tiny-letters-txt: 18 of 18 runs to train on the grid" in out
    assert "Look at 3 seeds: stuck worse; twin undecided and goes on." in out
    assert all(f"/{total} runs done" in out for total in (18, 27, 31))
    assert "All 31 runs are recorded" in out
    told = json.loads((study_in(decided[0]) / "verdict.json").read_text())["comparisons"]
    assert [[look["seeds"] for look in one["looks"]] for one in told] == [[3], [3, 5]]


def test_arms_are_judged_at_the_points_that_were_selected_on_other_seeds(decided: tuple[Path, str]) -> None:
    frame, known = stages(decided[0]), children(decided[0])
    tried = frame[frame["stage"] == "tune"]
    assert set(tried["seed"]) == {1_000_000, 1_000_001, 1_000_002}
    best = tried.groupby(["arm", "point"])["val_loss"].mean().unstack().idxmin(axis=1).to_dict()
    assert best["base"] == best["twin"] == 1e-2
    for run in frame.itertuples():
        child = known[run.run_id].data  # type: ignore[attr-defined]
        point = run.point if run.stage == "tune" else best[run.arm]
        assert run.point == point
        assert child.params["optimizer.learning_rate"] == repr(point)
        assert (child.tags["seedbed.stage"], child.tags["seedbed.point"]) == (run.stage, f"{point:g}")
        assert child.tags["mlflow.runName"] == f"{run.arm} at {point:g} seed {run.seed}"
    snapshot = Records(study_in(decided[0])).snapshot()
    assert {arm["name"]: arm["selected"] for arm in snapshot["arms"]} == best
    assert "optimizer.learning_rate" not in snapshot["held_equal"]


def test_a_look_is_taken_again_from_the_records(
    decided: tuple[Path, str], tmp_path: Path, give: Give, looked: Callable[[], Study], cluster: str
) -> None:
    """Nothing is trained again, another number of looks is refused, and what is lost of the last round, as when a
    machine goes down in it, is asked for again with the same numbers."""
    shutil.copytree(decided[0], tmp_path, dirs_exist_ok=True)
    before = stages(tmp_path)
    code, out, err = give(*LOOKED, study=looked)
    assert (code, err) == (0, "")
    assert "runs to train" not in out
    for options, said in (
        (("--until-decided", "--max-seeds", "8"), "--max-seeds 5, and now it is --until-decided --max-seeds 8"),
        (("--seeds", "5"), "--max-seeds 5, and now it is 5 seeds"),
    ):
        code, _, err = give(*options, study=looked)
        assert code == 2
        assert said in err
    last = before[(before["stage"] == "judge") & (before["seed"] >= 3)]["run_id"]
    parts = [
        part for part in (study_in(tmp_path) / "runs").iterdir() if set(pd.read_parquet(part)["run_id"]) & set(last)
    ]
    lost = len(pd.read_parquet(parts[0]))
    parts[0].unlink()
    code, out, err = give(*LOOKED, "--address", cluster, study=looked)
    assert (code, err) == (0, "")
    assert f"{lost} of 31 runs to train, up to the look at 5 seeds," in out
    assert "Look at 3 seeds" not in out
    assert list(stages(tmp_path)["run_id"]) == list(before["run_id"])
    assert list(stages(tmp_path)["val_loss"]) == pytest.approx(list(before["val_loss"]), abs=1e-4)
