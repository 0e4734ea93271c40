"""Runs on Ray Tune: one trial trains one cohort, actors are reused, results come back to the driver.

Only the driver writes records. A trial returns its results whole, so a machine that is lost takes with it nothing but
the cohort that it was training, and Ray trains that one again elsewhere, from its last state where there is one.
"""

import itertools
import logging
import os
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from model.checkpoint import Checkpoint
from model.corpus.text import Corpus
from model.hardware import ALLOCATOR
from model.recipe import Member
from sweeps.engine.places import Node, Places
from sweeps.engine.plan import Cohort
from sweeps.engine.watch import Watch

PROBE_SECONDS = 5
RETRIES = 2  # of a cohort whose worker died or raised


class LaunchError(ValueError):
    """A cluster that cannot be joined, or that lacks what the runs need."""


@contextmanager
def cluster(address: str | None) -> Iterator[None]:
    """A Ray of our own on this machine, ended afterwards, or the one at `address` ('auto' finds it).

    Raises LaunchError when there is none, or when it has no CPU to give.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if address is not None:
        _check_port(address)
    import ray
    from ray.exceptions import AuthenticationError

    try:
        ray.init(
            address=address or "local",
            include_dashboard=False if address is None else None,
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env={"env_vars": {name: os.environ.get(name, value) for name, value in ALLOCATOR.items()}},
        )
    except (ConnectionError, ValueError, RuntimeError, AuthenticationError) as error:
        reason = str(error).strip().splitlines()[0].partition(". ")[0].rstrip(".")
        if address is None:
            raise LaunchError(f"Ray could not be started on this machine ({reason}).") from None
        raise LaunchError(
            f"The Ray cluster at {address!r} cannot be joined ({reason}). If it asks for a token, put that "
            "into ~/.ray/auth_token and set RAY_AUTH_MODE=token; to train on this machine alone, leave --address out."
        ) from None
    try:
        if ray.cluster_resources().get("CPU", 0) < 1:
            raise LaunchError("The Ray cluster has no CPU to give, and each run takes one; add a node that has.")
        yield
    finally:
        ray.shutdown()


def _check_port(address: str) -> None:
    """Raise LaunchError at once where nothing listens; Ray would try for 20 s."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=PROBE_SECONDS).close()
        except (OSError, OverflowError):
            raise LaunchError(
                f"No Ray cluster answers at {address!r}. Start one with 'ray start --head', or leave --address out."
            ) from None


def choose_device(wanted: str) -> str:
    """'cpu' or 'cuda' for `wanted` out of auto, cpu and cuda, by what the cluster has. Raises LaunchError."""
    import ray

    gpus = ray.cluster_resources().get("GPU", 0)
    if wanted == "cuda" and not gpus:
        raise LaunchError("--device cuda needs a GPU, and this Ray cluster has none; use --device cpu or auto.")
    return "cuda" if wanted != "cpu" and gpus else "cpu"


def machines() -> list[Node]:
    """What each machine of the connected cluster gives to Ray."""
    import ray

    given = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return [Node(int(r.get("CPU", 0)), int(r.get("GPU", 0)), int(r.get("memory", 0))) for r in given]


def launch(
    more: Callable[[], Sequence[tuple[Cohort, Checkpoint]]],
    corpus: Corpus,
    places: Places,
    resources: dict[str, float],
    watch: Watch,
    keep_models: bool = False,
) -> None:
    """Train the cohorts that `more` gives on the connected cluster, in order as places become free, and ask it again
    when all have ended, until it gives none; returns early on Ctrl-C.

    With each cohort comes where its state is kept; a worker that does not find that folder on its machine keeps none.
    Each takes `resources` and one thread. `watch` hears of cohorts by their number in the order in which they were
    given; what it raises ends the launch and is raised here. With `keep_models` their results bring the trained models.
    """
    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"  # results hold objects, and the records are ours
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"  # its reporter prints even when verbose is 0
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(places.count)  # a searcher gets one, and places would wait for it
    from ray import tune

    from sweeps.engine.topup import TopUp
    from sweeps.engine.trial import CohortTrainable, Recorder

    for name in ("ray.tune", "ray.train", "ray.data"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    numbers = itertools.count()

    def configurations() -> list[dict[str, Any]]:
        return [
            {
                "cohort": next(numbers),
                "members": tuple(Member(run.recipe, run.seed) for run in cohort),
                "checkpoint": checkpoint,
            }
            for cohort, checkpoint in more()
        ]

    trainable = tune.with_parameters(CohortTrainable, corpus=corpus, device=places.device, keep_models=keep_models)
    with tempfile.TemporaryDirectory(prefix="seedbed-") as scratch:
        tuner = tune.Tuner(
            tune.with_resources(trainable, resources),
            tune_config=tune.TuneConfig(
                search_alg=TopUp(configurations),
                num_samples=-1,
                reuse_actors=True,
                trial_dirname_creator=lambda trial: trial.trial_id,  # else it is made of all that a member is
            ),
            run_config=tune.RunConfig(
                name="cohorts",
                storage_path=scratch,
                verbose=0,
                failure_config=tune.FailureConfig(max_failures=RETRIES),
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                callbacks=[Recorder(watch)],
            ),
        )
        try:
            tuner.fit()
        except tune.TuneError as error:
            raise error.__context__ or error from None  # what `watch` raised, such as a full disk, comes wrapped
