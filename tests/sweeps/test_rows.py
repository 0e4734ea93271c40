"""What a finished run came to, column by column."""

from model.course import Point, Result
from model.recipe import Recipe
from sweeps.engine.plan import Run
from sweeps.engine.rows import curve_rows, run_row

RESULT = Result(
    seed=7,
    diverged_at=None,
    val_loss=4.1,
    val_window_sd=0.3,
    last_batch_loss=4.2,
    initial_loss=7.1,
    parameters=11,
    steps=12,
    tokens=13,
    seconds=14.0,
    cohort=15,
    curve=(Point(3, "train_loss", 5.5),),
)


def test_every_number_of_a_result_has_its_column() -> None:
    run = Run("id", "wide", Recipe(), 7)
    row = run_row(run, RESULT, {"study": "s"})
    numbers = ("val_loss", "val_window_sd", "last_batch_loss", "initial_loss", "parameters", "steps", "tokens")
    assert {name: row[name] for name in (*numbers, "seconds", "cohort", "seed", "diverged_at")} == {
        name: getattr(RESULT, name) for name in (*numbers, "seconds", "cohort", "seed", "diverged_at")
    }
    assert (row["study"], row["run_id"], row["arm"], row["status"]) == ("s", "id", "wide", "completed")
    assert curve_rows(run, RESULT) == [
        {"run_id": "id", "arm": "wide", "seed": 7, "step": 3, "name": "train_loss", "value": 5.5}
    ]
