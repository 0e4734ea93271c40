"""Which tracking URIs are refused, and what of one may be shown."""

import pytest

from sweeps.engine.tracking import SCHEMES, TrackingError, check_tracking_uri, public_uri

GOOD = [
    "sqlite:///mlflow.db",
    "sqlite:////tmp/me@home/mlflow.db",
    "sqlite+pysqlite:///mlflow.db",
    "http://localhost:5000",
    "https://me:secret@tracking.example.org/mlflow/",
    "http://[::1]:5000",
    "postgresql+psycopg2://me:secret@db.example.org:5432/mlflow",
    "mysql://db/mlflow",
    "databricks",
    "databricks://profile",
    "file:///tmp/mlruns",
    "./mlruns",
]
BAD = {
    "": "is empty",
    "foo://": "starts with foo:",
    "htp://me:secret@host:5000": "starts with htp:",
    "localhost:5000": "write http://localhost:5000",
    "127.0.0.1:5000/": "write http://127.0.0.1:5000/",
    "sqlite:mlflow.db": "three slashes",
    "sqlite://mlflow.db": "three slashes",
    "sqlite:///": "names no file",
    "http://": "write http://HOST:PORT",
    "https:/host": "write https://HOST:PORT",
    "http://host:port": "is not the address of a server",
    "http://me:sec/ret@host:5000": "is not the address of a server",
    "me:secret@host:5000": "starts with me:",
}


@pytest.mark.parametrize("uri", GOOD)
def test_a_uri_that_a_store_may_have(uri: str) -> None:
    check_tracking_uri(uri)


@pytest.mark.parametrize(("uri", "words"), BAD.items())
def test_a_uri_that_no_store_can_have(uri: str, words: str) -> None:
    with pytest.raises(TrackingError) as refused:
        check_tracking_uri(uri)
    assert words in str(refused.value)
    assert "sec" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_schemes_are_those_of_mlflow() -> None:
    from mlflow.tracking._tracking_service.utils import _tracking_store_registry

    assert set(_tracking_store_registry._registry) >= SCHEMES
    ours = {name for name, make in _tracking_store_registry._registry.items() if make.__module__.startswith("mlflow.")}
    assert ours == SCHEMES


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("sqlite:///mlflow.db", "sqlite:///mlflow.db"),
        ("sqlite:////tmp/me@home/mlflow.db", "sqlite:////tmp/me@home/mlflow.db"),
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000"),
        ("http://me:secret@host:5000/mlflow", "http://host:5000/mlflow"),
        ("https://token@host", "https://host"),
        ("http://me:p@ss:w/rd?@host:5000", "http://host:5000"),
        ("postgresql://me:secret@db/mlflow?password=secret", "postgresql://db/mlflow"),
    ],
)
def test_credentials_are_never_shown(uri: str, shown: str) -> None:
    assert public_uri(uri) == shown
