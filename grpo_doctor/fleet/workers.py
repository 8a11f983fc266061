"""The map of `judge` over the units of a fleet: here, in processes of this machine, or on a cluster of Ray.

Whoever does the work, every unit comes back: one whose worker died is tried once more, alone, and then reported.
Threads are no choice: reading and judging hold Python's lock.
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
from .locations import Unit
from .unit import Job, encode, failed, judge

FEW = 1 << 20
"""Bytes of logs below which starting a worker takes longer than the work."""
AHEAD = 2
"""Units that wait for each worker."""
REACHED = 10.0
"""Seconds in which the head of a cluster answers."""
Documents = Iterator[tuple[Unit, bytes]]


def work(unit: Unit, job: Job) -> bytes:
    """One unit, as it is sent between processes and remembered."""
    return encode(judge(unit, job))


def mapped(units: list[Unit], job: Job, *, jobs: int | None = None, ray: str | None = None) -> Documents:
    """Every unit with what came of it, as it comes: the largest first, so that none is left to the end alone.

    Raises `ConfigError` where Ray is asked for and cannot be had.
    """
    ordered = sorted(units, key=lambda unit: unit.size, reverse=True)
    if ray is not None:
        return _on_ray(ordered, job, ray)
    workers = min(jobs or os.cpu_count() or 1, len(ordered))
    only_here = any(unit.remote.startswith("memory://") for unit in ordered)  # the file system of one process
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
    """Units as they are done; when a worker dies, those that were at work or in line are left in ``suspects``."""
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
    """A unit in a process of its own, so that it takes no other with it."""
    try:
        with _pool(1) as pool:
            return pool.submit(work, unit, job).result()
    except BrokenProcessPool:
        return encode(failed(unit, "the process that read it died twice, out of memory or killed; the others went on"))


def _pool(workers: int) -> ProcessPoolExecutor:
    """Processes forked from one that has loaded the modules and started no thread."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["grpo_doctor.fleet.unit", "grpo_doctor.readers.formats.keyvalue"])
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_begin)


def _begin() -> None:
    """A worker computes in one thread; another one ends it with the process that it works for, which may be killed."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    threading.Thread(target=_end_with, args=(multiprocessing.parent_process(),), daemon=True).start()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)


def _on_ray(units: list[Unit], job: Job, address: str) -> Documents:
    """The same on a cluster, whose nodes have grpo-doctor installed and see the paths."""
    try:
        import ray
    except ImportError:
        raise ConfigError("--ray needs Ray: pip install 'grpo-doctor[ray]'") from None
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
    """Raises `ConfigError` at once if nothing listens at HOST:PORT: Ray itself retries for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "://" in address:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACHED).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(f"--ray {address}: no cluster can be reached there: {error}") from None


def _ray_results(ray: Any, units: list[Unit], job: Job) -> Documents:
    """Ray repeats a task whose worker died; a task that fails twice is reported."""
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
