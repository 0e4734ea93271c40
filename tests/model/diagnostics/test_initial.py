"""The stream before training, against what is known of it: the source chapter's table, and how it grows with depth."""

import json
from pathlib import Path

import pytest

from model.diagnostics.__main__ import KINDS, main
from model.diagnostics.initial import at_initialisation


def test_a_post_norm_stream_has_unit_scale_at_every_depth() -> None:
    for layers, found in at_initialisation(KINDS["post-norm with plain weights"], (2, 6)).items():
        assert len(found.activation_R) == layers + 1
        assert found.activation_R[1:] == pytest.approx(1, abs=1e-3)
        assert (found.activation_ratio, found.gradient_ratio) == pytest.approx((1, 1), abs=0.01)


def test_a_pre_norm_stream_grows_with_plain_weights_as_the_chapter_has_it() -> None:
    """At 6 layers it gives 2.57 for the stream and 2.12 for its gradient, from one draw; ours spread by a tenth."""
    found = at_initialisation(KINDS["pre-norm with plain weights"], (6,))[6]
    assert found.activation_ratio == pytest.approx(2.57, rel=0.1)
    assert found.gradient_ratio == pytest.approx(2.12, rel=0.15)


def test_scaled_weights_hold_its_growth_at_any_depth() -> None:
    """Of 2 L branches each writes 1 / sqrt(2 L) as much, so that together they add the same variance whatever L is."""
    found = at_initialisation(KINDS["pre-norm with scaled weights"], (6, 24))
    growth = [a.activation_R[-1] / a.activation_R[0] for a in found.values()]
    assert growth[1] == pytest.approx(growth[0], rel=0.05)
    assert max(growth) < 1.6


def test_the_command_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--depths", "1", "2", "--json", str(tmp_path / "found.json")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 88
    assert len(lines) == 3 + 2 * len(KINDS)
    found = json.loads((tmp_path / "found.json").read_text())
    assert set(found) == set(KINDS)
    assert len(found["pre-norm with plain weights"]["2"]["activation_R"]) == 3
    assert main(["--depths", "0"]) == 2
    assert "layers must be at least 1" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_told_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model.diagnostics.__main__.at_initialisation", None)  # what would fail if it were called
    path = tmp_path / "nothing" / "found.json"
    assert main(["--json", str(path)]) == 2
    assert capsys.readouterr() == ("", f"{path} cannot be written (No such file or directory).\n")
