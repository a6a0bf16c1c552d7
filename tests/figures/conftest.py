"""One quick run of all figures, for all tests and test processes."""

import fcntl
import os
import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def quick(tmp_path_factory):
    """The folder of a quick run of everything; to be left as it is."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    out = shared / "quick"
    with open(shared / "quick.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (out / "report.html").exists():
            command = [
                sys.executable,
                "-c",
                "from limitlaw.cli import main; main()",
                "reproduce",
                "--quick",
                "--out",
                str(out),
            ]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
    return out
