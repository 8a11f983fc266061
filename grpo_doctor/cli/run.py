"""``grpo-doctor run``: trains with live checks."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from ..config import Config, ConfigError, table_of
from ..diagnosis.check import Severity
from ..extras import install
from ..preflight import words_before
from ..report.redaction import one_line
from . import common

if TYPE_CHECKING:
    from ..diagnosis.verdict import Diagnosis
    from ..engine.settings import Settings
    from ..engine.trainer import Trainer
    from ..integrations.session import Session

RUNS = Path("runs")


TrainingFile: TypeAlias = Annotated[
    Path | None, typer.Argument(metavar="[CONFIG.toml]", help="TOML file with training settings.", show_default=False)
]
Given: TypeAlias = Annotated[
    list[str] | None, typer.Option("--set", help="NAME=VALUE: a setting with its GRPOConfig name; repeatable.")
]
Model: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--model", help="embedded, embedded-small, smollm2, a model folder or a hub id.", show_default="embedded"
    ),
]
Task: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--task", help="embedded, tools, module:function, or a JSONL file of prompts.", show_default="embedded"
    ),
]
EngineName: TypeAlias = Annotated[
    str, typer.Option("--engine", help="own, or trl: use TRL's trainer with the same settings (also under torchrun).")
]
Inject: TypeAlias = Annotated[
    list[str] | None, typer.Option("--inject", help="Enable a fault (`grpo-doctor lab faults` lists them); repeatable.")
]
On: TypeAlias = Annotated[str, typer.Option("--on", help="SEVERITY=ACTION,…: warn, skip-update, stop or rollback.")]
RecordEvery: TypeAlias = Annotated[
    int | None, typer.Option("--record-every", help="Record logit statistics every N steps.", show_default="1")
]
RecordTokens: TypeAlias = Annotated[
    int | None,
    typer.Option("--record-tokens", help="Number of tokens for logit statistics; 0 means all.", show_default="0"),
]
Probe: TypeAlias = Annotated[bool, typer.Option("--probe", help="Run the probes first, and do not train if one fails.")]


@common.configured(common.CHECKS)
def run(
    config_toml: TrainingFile = None,
    set_: Given = None,
    model: Model = None,
    task: Task = None,
    engine: EngineName = "own",
    steps: Annotated[int | None, typer.Option("--steps", help="Number of training steps.", show_default="60")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Random seed.", show_default="0")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Run folder.", show_default="runs/…")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume from the last checkpoint in --out.")] = False,
    inject: Inject = None,
    on: On = "warning=warn,error=warn",
    record_every: RecordEvery = None,
    record_tokens: RecordTokens = None,
    probe: Probe = False,
    *,
    settings: Config,
) -> None:
    """Trains with GRPO and checks every step: warns, skips an update, stops or rolls back.

    Writes records.jsonl, samples.jsonl, config.json and the reports to the run folder. Without arguments, trains the
    built-in model on the built-in task, without a download or a GPU.

    Ctrl-C stops after the current step and writes a checkpoint and the reports; the exit code reflects the findings so
    far. A second Ctrl-C stops immediately.

    Exit codes: 0 no finding at or above --fail-on, 1 findings, 2 wrong usage, 3 the run could not be judged.
    """
    short = {"model": model, "task": task, "max_steps": steps, "seed": seed}
    short |= {"record_every": record_every, "record_tokens": record_tokens}
    with common.plain_errors():
        given = _merged_settings(config_toml, set_ or [], {k: v for k, v in short.items() if v is not None})
        faults = [*given.pop("inject", []), *(inject or [])]
        if engine == "trl":
            raise typer.Exit(_train_with_trl(given, faults or resume, given.pop("on", on), out, settings))
        if engine != "own":
            raise ConfigError(f"--engine {engine}: choose own or trl")
        session, trainer = _begin(given, faults, given.pop("on", on), out, resume, settings)
        for line in words_before(session.doctor.summary.settings):
            common.note(line)
        if probe:
            _prove(trainer, settings)
        diagnosis = _train(session, trainer)
    stopped_by_finding = session.stopped is not None and session.stopped.finding is not None
    if stopped_by_finding:
        raise typer.Exit(common.FINDINGS)
    from .analyze import Outcome, exit_code

    raise typer.Exit(exit_code(Outcome([diagnosis]), Severity.of(settings.fail_on)))


def _train_with_trl(given: dict[str, Any], ours: Any, on: str, out: Path | None, examined: Config) -> int:
    """Train with TRL and live checks; return the exit code. Only rank 0 prints the verdict."""
    from .analyze import Outcome, exit_code

    if ours:
        raise ConfigError("--engine trl: --inject and --resume work only with --engine own")
    _needs_torch()
    from ..engine.settings import settings_of
    from ..integrations.trl_train import train

    settings = settings_of(given, "settings")
    attached = train(settings, out or _fresh(settings, ["trl"]), on, common.chosen(examined))
    if attached.session is None:
        return common.CLEAN
    diagnosis = attached.diagnosis()
    typer.echo(f"{diagnosis.verdict}: {one_line(diagnosis.headline)}\nreports in {one_line(str(attached.folder.path))}")
    if attached.stopped is not None:
        return common.FINDINGS
    return exit_code(Outcome([diagnosis]), Severity.of(examined.fail_on))


def faults() -> None:
    """Lists the faults for `run --inject`, with the check or probe that should detect each fault."""
    with common.plain_errors():
        _needs_torch()
        from rich.console import Console
        from rich.table import Table

        from ..engine.faults import FAULTS

        table = Table("fault", "effect", "detected by", box=None, padding=(0, 2, 0, 0))
        for name, fault in FAULTS.items():
            table.add_row(name, (fault.__doc__ or "").split("\n")[0], ", ".join(fault.named_by))
        Console(highlight=False).print(table)


def _needs_torch() -> None:
    import importlib.util

    for package in ("torch", "transformers"):
        if importlib.util.find_spec(package) is None:
            raise ConfigError(f"training needs {package}; {install('train')}")


def _merged_settings(file: Path | None, words: list[str], short: dict[str, Any]) -> dict[str, Any]:
    """Merge settings. Dedicated options override --set, which overrides the TOML file."""
    table = {} if file is None else table_of(file)
    return {**table, **common.assigned("--set", words), **short}


def _begin(
    given: dict[str, Any], faults: list[str], on: str, out: Path | None, resume: bool, examined: Config
) -> tuple[Session, Trainer]:
    """Load the model and the task, and open the run folder."""
    _needs_torch()
    from ..diagnosis.live import LiveDoctor
    from ..engine.faults import faulty_engine
    from ..engine.settings import Settings, settings_of
    from ..integrations.session import Folder, Session, actions_of

    actions = actions_of(on)
    stored: dict[str, Any] = {}
    if resume:
        out = out or _newest()
        stored = Folder(out).settings()
        faults = faults or stored.get("inject", [])
        stored = {k: v for k, v in stored.items() if k in Settings.__struct_fields__}
    engine, of_fault = faulty_engine(faults)
    origin = "settings"
    settings = settings_of({**of_fault, **stored, **given}, origin)
    folder = Folder(out or _fresh(settings, faults))
    declared = json.loads(json.dumps({**settings.declared(), "inject": faults}))
    trainer = _trainer(settings, engine)
    if not resume:
        folder.begin(declared)
    doctor = LiveDoctor(
        declared,
        source=str(folder.path / "records.jsonl"),
        catalogue=common.chosen(examined),
        thresholds=examined.thresholds,
    )
    session = Session(folder, doctor, trainer, actions, settings.save_steps, settings.save_total_limit)
    if resume:
        resumed = folder.resume()
        common.note(f"{folder.path}: {resumed.words()}")
        if resumed.checkpoint is not None:
            trainer.load(resumed.checkpoint)
        session.replay(resumed.steps)
    elif "rollback" in actions.values():
        session.checkpoint(0)
    return session, trainer


def _trainer(settings: Settings, engine: Any) -> Trainer:
    from ..engine.model import load_model
    from ..engine.task import load_task
    from ..engine.trainer import Trainer

    task = load_task(settings.task, settings.reward)
    common.note(f"loading {_named(settings)}")
    return Trainer(engine(settings, *load_model(settings), task))


def _named(settings: Settings) -> str:
    from ..engine.model import EMBEDDED
    from ..engine.tiny import cache_file

    if settings.model in EMBEDDED and not cache_file(settings.model, settings.task).is_file():
        return "the built-in model (the first time takes about a minute)"
    return "the built-in model" if settings.model in EMBEDDED else settings.model


def _prove(trainer: Trainer, examined: Config) -> None:
    """Probe the engine, restore its state, and end the command if a probe fails."""
    from ..probes import engine_adapter, run_probes
    from .analyze import Outcome, exit_code

    engine = trainer.engine
    before = dict(vars(engine))
    adapter = engine_adapter(engine, [example.dialogue for example in engine.task.examples[:8]])
    diagnosis = run_probes(adapter, catalogue=common.chosen(examined), thresholds=examined.thresholds)
    vars(engine).clear()
    vars(engine).update(before)
    if exit_code(Outcome([diagnosis]), Severity.of(examined.fail_on)) == common.FINDINGS:
        options = common.options(examined, "text", None, None, samples=False, verbose=True, full=True)
        common.write([diagnosis], "text", None, [], options)
        raise typer.Exit(common.FINDINGS)
    typer.echo(f"probes: {diagnosis.coverage.passed} of {diagnosis.coverage.ran} passed")


def _fresh(settings: Settings, faults: list[str]) -> Path:
    """Return an unused folder named after the model, faults and seed."""
    from ..integrations.session import unused

    return unused(RUNS / "-".join([Path(settings.model).name, *faults, f"seed{settings.seed}"]))


def _newest() -> Path:
    found = sorted(RUNS.glob("*/config.json"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise ConfigError(f"--resume: {RUNS}/ contains no run; name the run folder with --out")
    return found[-1].parent


def _train(session: Session, trainer: Trainer) -> Diagnosis:
    """Run the training steps, and write the reports. Errors in checks or output do not stop the training."""
    from ..engine.trainer import TrainingDied
    from ..fault_isolation import FaultGuard, tell, unwatched
    from ..integrations.session import Stopped
    from .live import view_for

    watched, shown = FaultGuard(), FaultGuard()
    view = view_for(trainer.settings.max_steps, trainer.engine.step_number, session)
    session.on_finding = lambda finding, action: shown(view.finding, finding, action)
    with view, _interruptions() as asked:
        try:
            for record, samples in trainer.run(lambda record: watched(session.veto, record)):
                before = watched.failure
                watched(session.push, record, samples)
                if before is None and watched.failure is not None:
                    tell(unwatched(watched.failure, f"at step {record.step}"))
                shown(view.step, record)
                if session.stopped is not None or asked:
                    break
            if session.stopped is None:
                session.checkpoint(trainer.engine.step_number)
            if asked:
                session.stopped = Stopped(f"interrupted; --resume continues after step {trainer.engine.step_number}")
        except KeyboardInterrupt:
            session.stopped = Stopped("interrupted in the middle of a step")
        except TrainingDied as died:
            session.stopped = Stopped(str(died))
    diagnosis = session.diagnosis()
    reports = session.folder.write_reports(diagnosis)
    session.folder.release()
    shown(view.end, diagnosis, reports, session.stopped)
    return diagnosis


@contextmanager
def _interruptions() -> Iterator[list[int]]:
    """Stop after the current step on Ctrl-C, and immediately on a second Ctrl-C."""
    asked: list[int] = []

    def ask(number: int, frame: object) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, before)
        common.note("stopping after this step with a checkpoint; press Ctrl-C again to stop immediately")

    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)
