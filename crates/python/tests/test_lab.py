"""The lab judges locks of Python as it judges those of Rust: the same faults, the same verdicts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Dict, Tuple

import pytest

from servers import REPOSITORY, command

_lab = command("quorumlock-lab")
_needed = os.environ.get("QUORUMLOCK_REQUIRE_COMMAND") == "1"
pytestmark = pytest.mark.skipif(_lab is None and not _needed, reason="quorumlock-lab is not built")

PYTHON = f"exec {sys.executable} {REPOSITORY / 'workers' / 'quorumlock-python.py'}"
# A holder dies; servers forget a lock; a client is cut off; answers are lost.
SCENARIOS = ["L02", "L10", "L14", "L21", "L28", "L32"]


def lab(*words: str) -> subprocess.CompletedProcess[str]:
    assert _lab is not None, "build it: cargo build --package quorumlock-lab"
    return subprocess.run([_lab, *words], capture_output=True, text=True, timeout=300)


def test_the_worker_has_every_line() -> None:
    checked = lab("worker-check", PYTHON, "--json", "--patience", "12000")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    lines = json.loads(checked.stdout)["lines"]
    assert {line["state"] for line in lines} == {"ok"}, lines


def test_python_and_rust_have_the_same_verdicts(tmp_path: Path) -> None:
    workers = ["--worker", f"python={PYTHON}", "--worker", f"rust=exec {_lab} worker"]
    out = ["--out", str(tmp_path / "lab"), "--json", "--quick"]
    ran = lab("run", *SCENARIOS, "--modes", "S,Q5", *workers, *out)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    fell: Dict[Tuple[str, str], Dict[str, bool]] = {}
    for run in json.loads(ran.stdout)["runs"]:
        mode, worker = run["mode"].split(":")
        seen = run["observed"]["V"] + run["observed"]["E"] > 0
        fell.setdefault((run["scenario"], mode), {})[worker] = seen
    # By theory (docs/lab/SCENARIOS.md): servers that forget let two clients hold, and nothing else does.
    forget = {"L10", "L14", "L21"}
    expected = {
        (scenario, mode): {"python": scenario in forget, "rust": scenario in forget}
        for scenario in SCENARIOS
        for mode in ("S", "Q5")
    }
    assert fell == expected
