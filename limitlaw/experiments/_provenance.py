"""Where numbers were made: hardware, versions, commit."""

import os
import platform
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import jax

_PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "equinox", "jaxtyping", "matplotlib", "xarray", "zarr")


@dataclass(frozen=True)
class Provenance:
    """What someone else needs to know to get the same numbers.

    Example:
        >>> from limitlaw.experiments import Provenance
        >>> Provenance.here().versions["limitlaw"]
        '0.2.0'
    """

    hardware: str
    system: str
    versions: dict[str, str]
    commit: str
    date: str

    @classmethod
    def here(cls) -> "Provenance":
        """This machine, now."""
        from .. import __version__

        versions = {"Python": platform.python_version(), "limitlaw": __version__}
        for name in _PACKAGES:
            try:
                versions[name] = version(name)
            except PackageNotFoundError:
                versions[name] = "not installed"
        date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        return cls(_hardware(), f"{platform.system()} {platform.machine()}", versions, _commit(), date)


def _hardware() -> str:
    model, memory = platform.processor() or platform.machine(), ""
    try:
        model = next(
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        )
        total = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
        memory = f", {int(total.split()[1]) / 2**20:.0f} GiB of memory"
    except (OSError, StopIteration):
        pass
    others = sorted({device.device_kind for device in jax.devices() if device.platform != "cpu"})
    return f"{model}, {os.cpu_count()} cores{memory}, {' and '.join(others) or 'no accelerator'}"


def _commit() -> str:
    """Of the source tree that is running; an installed package has none."""
    root = Path(__file__).parent.parent.parent
    if not (root / ".git").exists():
        return "installed package"
    try:
        run = [
            subprocess.run(
                ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
            ).stdout.strip()
            for arguments in (["rev-parse", "--short", "HEAD"], ["status", "--porcelain"])
        ]
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return run[0] + (" with local changes" if run[1] else "")
