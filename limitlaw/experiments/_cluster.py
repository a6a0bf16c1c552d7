"""Where tasks run: `local:4`, `tcp://host:port`, or `slurm` with a profile."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import _checks
from .._checks import ArgumentError, ArgumentTypeError, missing_package
from ._dask import ClusterError, check_versions

_HOW = "Use local:N, tcp://host:port, or slurm"
_CONNECT = 10.0  # seconds for a scheduler to answer
_PROFILE = {
    "jobs": (int, "the number of jobs to submit"),
    "cores": (int, "the cores of a job"),
    "processes": (int, "the number of workers in a job"),
    "memory": (str, "the memory of a job"),
    "walltime": (str, "the time limit of a job"),
    "queue": (str, "the partition"),
    "account": (str, "the account to charge"),
    "interface": (str, "the network interface, such as 'ib0'"),
    "python": (str, "the interpreter on the nodes"),
    "job_extra_directives": (list, "further #SBATCH lines"),
    "job_script_prologue": (list, "commands before the workers start"),
    "local_directory": (str, "scratch space of a node"),
    "log_directory": (str, "for the logs of jobs"),
}
_NEEDED = ("cores", "memory")
_TIMES_AND_SIZES = {"memory": r"\d+(\.\d+)?\s*([kKMGTP]i?)?B?", "walltime": r"(\d+-)?\d+(:\d+){0,2}"}


@dataclass(frozen=True)
class Cluster:
    """A place with workers: `Cluster.of("local:4")`, checked before anything starts.

    Example:
        >>> from limitlaw.experiments import Cluster
        >>> Cluster.of("local:4")
        Cluster(kind='local', address='', workers=4)
        >>> Cluster.of("cloud")
        Traceback (most recent call last):
        limitlaw._checks.ArgumentError: --cluster 'cloud' is not known. Use local:N, tcp://host:port, or slurm.
    """

    kind: str
    address: str = ""
    workers: int = 0
    profile: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, text: str, profile: Path | None = None) -> Cluster:
        """From the words of `--cluster`, and a profile file for `slurm`."""
        if not isinstance(text, str):
            raise ArgumentTypeError("cluster", f"cluster={text!r} must be text. {_HOW}.")
        if text == "slurm":
            if profile is None:
                raise ArgumentError(
                    "profile",
                    "--cluster slurm needs --profile FILE, a TOML file with cores = ... and memory = '...GB' of a job, and "
                    "jobs, queue, walltime, ...",
                )
            return cls("slurm", profile=_read_profile(profile))
        if profile is not None:
            raise ArgumentError(
                "profile", f"--profile {profile} belongs to --cluster slurm, not to --cluster {text!r}. Leave it out."
            )
        if text.startswith(("tcp://", "tls://")):
            host, _, port = text.split("://", 1)[1].rpartition(":")
            if not host or not port.isdigit():
                raise ArgumentError(
                    "cluster", f"--cluster {text!r} must have a host and a port, such as tcp://10.0.0.1:8786."
                )
            return cls("scheduler", address=text)
        kind, _, count = text.partition(":")
        if kind == "local":
            if not count.isdigit() or not int(count):
                raise ArgumentError("cluster", f"--cluster {text!r} must give the number of workers, such as local:4.")
            return cls("local", workers=int(_checks.positive_integer("--cluster local", int(count))))
        raise ArgumentError("cluster", f"--cluster {text!r} is not known. {_HOW}.")

    @contextmanager
    def client(self) -> Iterator[Any]:
        """A client of it; what was started for it ends with it."""
        with self._started() as address:
            from distributed import Client

            try:
                client = Client(address, timeout=_CONNECT, set_as_default=False)
            except (OSError, TimeoutError, ValueError):
                raise ClusterError(
                    f"--cluster {self.address}: no scheduler answers there. Start one with dask scheduler, or check the "
                    f"address."
                ) from None
            try:
                check_versions(client)
                yield client
            finally:
                client.close(timeout=2)

    @contextmanager
    def _started(self) -> Iterator[Any]:
        """What to connect to."""
        require_dask()
        _quiet()
        if self.kind == "scheduler":
            yield self.address
            return
        if self.kind == "slurm":
            with self._slurm() as cluster:
                cluster.scale(jobs=self.profile.get("jobs", 1))
                yield cluster
            return
        from distributed import LocalCluster

        options: Any = {"dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
        with LocalCluster(n_workers=self.workers, threads_per_worker=1, **options) as cluster:
            yield cluster

    def job_script(self) -> str:
        """What would be submitted."""
        with self._slurm() as cluster:
            return cluster.job_script()

    def _slurm(self) -> Any:
        try:
            from dask_jobqueue.slurm import SLURMCluster
        except ImportError:
            raise ClusterError(f"--cluster slurm: {missing_package('dask-jobqueue', 'cluster')}") from None
        options = {name: value for name, value in self.profile.items() if name != "jobs"}
        return SLURMCluster(**options, scheduler_options={"dashboard_address": "127.0.0.1:0"})


def require_dask() -> None:
    """Refuse, in one sentence, to go on without it."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise ClusterError(f"--cluster: {missing_package('dask', 'cluster')}") from None


def _quiet() -> None:
    """What goes wrong is said once, by us."""
    for name in (
        "distributed",
        "distributed.worker",
        "distributed.nanny",
        "distributed.scheduler",
        "distributed.client",
    ):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _read_profile(file: Path) -> dict[str, Any]:
    table = _checks.read_toml(file)
    _checks.known_keys(f"the profile {file}", table, _PROFILE)
    for name, value in table.items():
        kind, meaning = _PROFILE[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ArgumentError("profile", f"--profile {file}: {name}={value!r} must be {kind.__name__}, {meaning}.")
        if name in _TIMES_AND_SIZES and not re.fullmatch(_TIMES_AND_SIZES[name], value):
            example = "'16GB'" if name == "memory" else "'01:00:00'"
            raise ArgumentError(
                "profile", f"--profile {file}: {name}={value!r} is not {meaning}. Give one such as {example}."
            )
    for name in _NEEDED:
        if name not in table:
            raise ArgumentError("profile", f"--profile {file} has no {name!r}, {_PROFILE[name][1]}. Add it.")
    return table
