"""Maps `judge` over the units of a fleet: in this process, in several local processes, or on a Ray cluster.

Every unit gets a result. If a worker dies, its unit is retried once, alone, and a second failure is reported. Threads
would not be faster, because the GIL is held while a unit is read and judged.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any

from ..config import ConfigError
from ..extras import install
from .locations import Unit
from .unit import Job, encode, failed, judge

FEW = 1 << 20
"""Total size of the files, in bytes, below which it is faster to judge the units in this process than to start
workers."""
AHEAD = 2
"""Number of units per worker that are running or queued."""
REACHED = 10.0
"""Timeout in seconds for a connection to the head node of a cluster."""
Documents = Iterator[tuple[Unit, bytes]]


def work(unit: Unit, job: Job) -> bytes:
    """Judge one unit. The result is encoded for transfer and storage."""
    return encode(judge(unit, job))


def mapped(units: list[Unit], job: Job, *, jobs: int | None = None, ray: str | None = None) -> Documents:
    """Yield every unit with its result as it completes.

    The largest units start first, so that no large unit runs alone at the end. Raises `ConfigError` if Ray is requested
    but not available.
    """
    ordered = sorted(units, key=lambda unit: unit.size, reverse=True)
    if ray is not None:
        return _on_ray(ordered, job, ray)
    workers = min(jobs or os.cpu_count() or 1, len(ordered))
    only_here = any(unit.remote.startswith("memory://") for unit in ordered)  # available only in this process
    small = jobs is None and sum(unit.size for unit in ordered) < FEW
    if workers < 2 or only_here or small:
        return ((unit, work(unit, job)) for unit in ordered)
    return _in_processes(ordered, job, workers)


def _in_processes(units: list[Unit], job: Job, workers: int) -> Documents:
    waiting = iter(units)
    while True:
        suspects: list[Unit] = []
        yield from _until_a_worker_dies(waiting, job, workers, suspects)
        if not suspects:
            return
        for unit in suspects:
            yield unit, _alone(unit, job)


def _until_a_worker_dies(waiting: Iterable[Unit], job: Job, workers: int, suspects: list[Unit]) -> Documents:
    """Yield completed units. If a worker dies, put the running and queued units into ``suspects``."""
    with _pool(workers) as pool:
        running: dict[Future[bytes], Unit] = {}
        try:
            for unit in islice(waiting, workers * AHEAD):
                running[pool.submit(work, unit, job)] = unit
            while running:
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    document = future.result()
                    yield running.pop(future), document
                    for unit in islice(waiting, 1):
                        running[pool.submit(work, unit, job)] = unit
        except BrokenProcessPool:
            for future, unit in running.items():
                if future.done() and future.exception() is None:
                    yield unit, future.result()
                else:
                    suspects.append(unit)


def _alone(unit: Unit, job: Job) -> bytes:
    """Judge a unit in a separate process, so that a crash affects no other unit."""
    try:
        with _pool(1) as pool:
            return pool.submit(work, unit, job).result()
    except BrokenProcessPool:
        return encode(failed(unit, "the process that read it died twice (out of memory or killed); others continued"))


def _pool(workers: int) -> ProcessPoolExecutor:
    """Return a pool of processes that are forked from a process without threads that has loaded the modules."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["grpo_doctor.fleet.unit", "grpo_doctor.readers.formats.keyvalue"])
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_begin)


def _begin() -> None:
    """Initialise a worker with one computing thread. Another thread ends the worker when the parent process ends."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    threading.Thread(target=_end_with, args=(multiprocessing.parent_process(),), daemon=True).start()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


def _on_ray(units: list[Unit], job: Job, address: str) -> Documents:
    """Map `work` over a Ray cluster. The nodes must have grpo-doctor installed and access to the paths."""
    try:
        import ray
    except ImportError:
        raise ConfigError(f"--ray needs Ray; {install('ray')}") from None
    own = not ray.is_initialized()
    if own:
        _refuse_unreachable(address)
        try:
            ray.init(address=address, log_to_driver=False, include_dashboard=False, configure_logging=False)
        except (ConnectionError, ValueError, RuntimeError, TimeoutError, ray.exceptions.RayError) as error:
            raise ConfigError(f"--ray {address}: {error}") from None
    try:
        yield from _ray_results(ray, units, job)
    finally:
        if own:
            ray.shutdown()


def _refuse_unreachable(address: str) -> None:
    """Raise `ConfigError` immediately if no server listens at HOST:PORT, because Ray itself retries for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "://" in address:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACHED).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(f"--ray {address}: no cluster can be reached there: {error}") from None


def _ray_results(ray: Any, units: list[Unit], job: Job) -> Documents:
    """Yield the results. Ray retries a task whose worker died, and a second failure is reported."""
    remote = ray.remote(num_cpus=1, max_retries=1)(work)
    shared = ray.put(job)
    most = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
    waiting = iter(units)
    running = {remote.remote(unit, shared): unit for unit in islice(waiting, most)}
    while running:
        (reference, *_), _ = ray.wait(list(running), num_returns=1)
        unit = running.pop(reference)
        try:
            document = ray.get(reference)
        except ray.exceptions.RayError as error:
            document = encode(failed(unit, f"the worker that read it died twice: {type(error).__name__}"))
        yield unit, document
        running |= {remote.remote(unit, shared): unit for unit in islice(waiting, 1)}
