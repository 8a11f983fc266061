"""Every hook gets the same metrics under its framework's names and finds what `analyze` finds, during the run."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_doctor import Diagnosis, diagnose
from grpo_doctor.config import ConfigError
from grpo_doctor.integrations.nemo_rl import DoctorLogger
from grpo_doctor.integrations.scalars import LoggedRun, TrainingStopped
from grpo_doctor.integrations.skyrl import watched
from grpo_doctor.integrations.slime import Hook
from grpo_doctor.readers import read
from grpo_doctor.record import read_records
from tests.integrations.course import STEPS, in_trls_words, in_verls_words, step
from tests.integrations.tiny_trl import fails_at

CODE = "KL001"
"""The fault of the training."""


def judged(diagnosis: Diagnosis) -> tuple[str, str | None, set[str]]:
    return diagnosis.verdict, diagnosis.cause, {f.code for f in diagnosis.findings}


def said_in_time(said: str, code: str = CODE) -> bool:
    """Return whether the fault was reported long before the end."""
    lines = [line for line in said.splitlines() if f" {code} " in line]
    return bool(lines) and int(lines[0].split("step ")[1].split(":")[0]) < STEPS - 20


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_metrics_live_and_from_a_file_are_judged_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = LoggedRun({"actor": {"beta": 0.04}}, framework="own", out="runs/a")
    log, series = tmp_path / "metrics.jsonl", list[dict[str, float]]()
    with open(log, "w", encoding="utf-8") as file:
        for n in range(1, STEPS + 1):
            series.append(run.log(n, in_trls_words(n)))
            file.write(json.dumps({"step": n, **in_trls_words(n)}) + "\n")
    run.finish()
    (written,) = read(log)
    assert judged(run.diagnosis()) == judged(diagnose(written))
    assert run.diagnosis().verdict == "failing"
    verdicts = [row["grpo_doctor/verdict"] for row in series]
    assert (verdicts[0], verdicts[-1]) == (0, run.diagnosis().worst)
    first = next(n for n, row in enumerate(series) if f"grpo_doctor/{CODE}" in row)
    assert verdicts[first - 1] < verdicts[first] == series[first][f"grpo_doctor/{CODE}"]
    assert run.settings["kl_coef"] == 0.04
    said = capsys.readouterr().err
    assert said_in_time(said)
    assert (tmp_path / "runs/a/report.md").exists()
    last = said.splitlines()[-1]
    assert last == f"grpo-doctor: failing: {run.diagnosis().headline} Report: {tmp_path / 'runs/a/report.html'}"
    assert "[warn]" not in said


def test_the_report_is_an_artifact_of_open_wandb_and_mlflow_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept: list[str] = []

    class Artifact(SimpleNamespace):
        def add_file(self, path: str) -> None:
            self.path = path

    def refuse(path: str, folder: str) -> None:
        raise OSError(f"no room for {folder}")

    open_run = SimpleNamespace(
        id="a1", log_artifact=lambda artifact: kept.append(artifact.path), alert=lambda *a, **k: 0
    )
    made = SimpleNamespace(run=open_run, Artifact=lambda name, type: Artifact(name=name), AlertLevel=None)
    monkeypatch.setitem(sys.modules, "wandb", made)
    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace(active_run=lambda: open_run, log_artifact=refuse))
    run = LoggedRun({}, framework="own", out="runs/a")
    for n in range(1, 12):
        run.log(n, in_trls_words(n))
    run.finish()
    assert kept == [str(run.folder.path / "report.html")]
    assert (
        capsys.readouterr()
        .err.splitlines()[-1]
        .endswith("MLflow rejected the report: OSError: no room for grpo-doctor")
    )


def test_a_folder_that_is_there_is_not_written_into() -> None:
    first, second = (LoggedRun({}, framework="own", out="runs/a") for _ in range(2))
    assert [run.folder.path.name for run in (first, second)] == ["a", "a-2"]


def test_an_evaluation_before_the_first_step_does_not_decide_what_is_trained() -> None:
    run = LoggedRun({}, framework="own", out="runs/a")
    run.log(0, {"eval/accuracy": 0.1})
    run.log(1, in_trls_words(1))
    assert run.session is not None
    assert run.session.doctor.summary.run_type == "rl"
    assert [r.step for r in read_records(Path("runs/a/records.jsonl"))] == [0, 1]


def test_an_internal_error_is_reported_once_and_not_raised(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("grpo_doctor.diagnosis.live.LiveDoctor.push", fails_at(3, lambda *a: []))
    run = LoggedRun({}, framework="own", out="runs/a", on="error=stop")
    for n in range(1, 6):
        run.log(n, in_trls_words(n))
    run.finish()
    assert run.stopped is None
    assert capsys.readouterr().err.count("grpo-doctor failed at step 3; the training goes on UNWATCHED") == 1


@pytest.mark.parametrize("on", ["error=skip-update", "error=rollback", "error"])
def test_an_action_that_a_hook_cannot_take_is_refused_at_the_start(on: str) -> None:
    with pytest.raises(ConfigError):
        LoggedRun({}, framework="own", out="runs/a", on=on)


# -- transformers ---------------------------------------------------------------------------------------------------


def test_the_callback_of_transformers_stops_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    transformers = pytest.importorskip("transformers", reason="the extra train is not installed")
    from grpo_doctor.integrations.hf_callback import DoctorCallback

    callback, control = DoctorCallback(on="critical=stop"), transformers.TrainerControl()
    args, state = SimpleNamespace(output_dir="out", learning_rate=1e-6), transformers.TrainerState()
    callback.on_train_begin(args, state, control)
    for n in range(1, STEPS + 1):
        state.global_step = n
        callback.on_log(args, state, control, logs=in_trls_words(n) | ({"grad_norm": float("nan")} if n == 30 else {}))
        if control.should_training_stop:
            break
    callback.on_log(args, state, control, logs={"train_runtime": 3.0, "train_loss": 9.0})
    callback.on_train_end(args, state, control)
    assert state.global_step == 30
    assert callback.diagnosis().cause == "GRD001"
    said = capsys.readouterr().err.splitlines()
    assert any(line.endswith("[stop]") for line in said)
    assert said[-1].startswith("grpo-doctor: failing: ")
    assert said[-1].endswith("report.html")
    assert [r.step for r in read_records(Path("out/grpo-doctor/records.jsonl"))] == list(range(1, 31))
    assert Path("out/grpo-doctor/report.md").exists()


def test_only_the_first_process_reports() -> None:
    transformers = pytest.importorskip("transformers", reason="the extra train is not installed")
    from grpo_doctor.integrations.hf_callback import DoctorCallback

    callback, control = DoctorCallback(), transformers.TrainerControl()
    state = transformers.TrainerState(is_world_process_zero=False)
    callback.on_train_begin(SimpleNamespace(output_dir="out"), state, control)
    callback.on_log(SimpleNamespace(), state, control, logs=in_trls_words(1))
    callback.on_train_end(SimpleNamespace(), state, control)
    assert not Path("out").exists()


# -- verl: the real package ------------------------------------------------------------------------------------------


def test_consequences_of_the_settings_are_printed_before_the_first_step(capsys: pytest.CaptureFixture[str]) -> None:
    rollout = {"n": 4, "temperature": 0.0}
    config = {"algorithm": {"adv_estimator": "grpo"}, "actor_rollout_ref": {"rollout": rollout}}
    LoggedRun(config, framework="verl", out="runs/a")
    said = capsys.readouterr().err
    assert "grpo-doctor: settings: responses per prompt 4" in said
    assert "grpo-doctor: settings: CFG014 greedy-rollouts (error): " in said
    LoggedRun({"name": "another"}, framework="own", out="runs/b")
    assert capsys.readouterr().err == ""


def tracking(**trainer: Any) -> Any:
    """Return a `Tracking` of the installed verl, with its own file logger in addition to grpo-doctor."""
    module = pytest.importorskip("verl.utils.tracking", reason="make test-hooks installs verl 0.9.1")
    logging.getLogger("verl").setLevel(logging.ERROR)
    import grpo_doctor.integrations.verl as hook

    hook.register()
    config = {"trainer": trainer, "actor_rollout_ref": {"rollout": {"n": 8}, "actor": {"kl_loss_coef": 0.001}}}
    return module.Tracking("project", "name", ["file", "grpo_doctor"], config=config)


def test_verl_finds_it_while_it_goes_and_gets_it_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", "verl.jsonl")
    loggers = tracking()
    for n in range(1, STEPS + 1):
        loggers.log(in_verls_words(n), step=n)
    loggers.finish()
    run = loggers.logger["grpo_doctor"].run
    assert run.boundary.failure is None
    assert (run.settings["group_size"], run.settings["kl_coef"]) == (8, 0.001)
    assert said_in_time(capsys.readouterr().err)
    assert Path("runs/project-name/report.md").exists()
    own = [json.loads(line) for line in Path("verl.jsonl").read_text(encoding="utf-8").splitlines()]
    assert any(f"grpo_doctor/{CODE}" in row["data"] for row in own)
    verdicts = {row["step"]: row["data"]["grpo_doctor/verdict"] for row in own if "grpo_doctor/verdict" in row["data"]}
    assert (list(verdicts), verdicts[1], verdicts[STEPS]) == ([*range(1, STEPS + 1)], 0, run.diagnosis().worst)
    (written,) = read(Path("verl.jsonl"))
    assert CODE in {f.code for f in diagnose(written).findings} & {f.code for f in run.diagnosis().findings}
    assert run.diagnosis().verdict == "failing"


def test_verl_is_stopped_after_the_step_that_was_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", "verl.jsonl")
    loggers = tracking(grpo_doctor={"on": "critical=stop", "out": "mine"})
    loggers.log(in_verls_words(1), step=1)
    with pytest.raises(TrainingStopped, match="GRD001"):
        loggers.log(in_verls_words(2) | {"actor/grad_norm": float("nan")}, step=2)
    assert len(Path("verl.jsonl").read_text(encoding="utf-8").splitlines()) == 4, "two steps, each with its series"
    assert "GRD001" in Path("mine/report.md").read_text(encoding="utf-8")


def test_verls_rollouts_give_groups_and_samples(tmp_path: Path) -> None:
    loggers = tracking(rollout_data_dir="rollouts")
    Path("rollouts").mkdir()
    for n in (1, 2):
        rows = [{"input": f"p{i // 4}", "output": f"o{i}", "score": float(i == 0), "step": n} for i in range(8)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        Path(f"rollouts/{n}.jsonl").write_text(text, encoding="utf-8")
        loggers.log(in_verls_words(n), step=n)
    loggers.finish()
    records = list(read_records(Path("runs/project-name/records.jsonl")))
    assert [(r.step, r.groups, r.zero_variance_groups) for r in records] == [(1, 2, 1), (2, 2, 1)]
    assert records[0].reward_mean == pytest.approx(in_verls_words(1)["critic/score/mean"]), "verl's own goes first"
    samples = Path("runs/project-name/samples.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(samples[0])["response"] == "o0"


def test_verl_loads_it_by_itself_also_in_a_ray_actor() -> None:
    pytest.importorskip("verl", reason="make test-hooks installs verl 0.9.1")
    pytest.importorskip("ray", reason="make test-hooks installs ray")
    script = (
        "import ray\nray.init('local', num_cpus=1, include_dashboard=False, log_to_driver=False)\n"
        "@ray.remote\nclass TaskRunner:\n    def run(self):\n"
        "        from verl.utils.tracking import Tracking\n        return 'grpo_doctor' in Tracking.supported_backend\n"
        "print('found', ray.get(TaskRunner.remote().run.remote()))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)
    assert "found True" in done.stdout, done.stderr[-2000:]


# -- OpenRLHF and SkyRL: the real loggers ------------------------------------------------------------------------------


def test_openrlhf(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    module = pytest.importorskip("openrlhf.utils.logging_utils", reason="make test-hooks installs openrlhf 0.11.2")
    from grpo_doctor.integrations import openrlhf

    monkeypatch.setenv("GRPO_DOCTOR_OUT", "mine")
    openrlhf.connect()
    openrlhf.connect()
    args = SimpleNamespace(
        logger=SimpleNamespace(tensorboard_dir="tb", wandb=SimpleNamespace(run_name="x")),
        rollout=SimpleNamespace(n_samples_per_prompt=8),
    )
    logger = module.TensorboardLogger(args)
    for n in range(1, STEPS + 1):
        values = step(n)
        logs = {
            "reward": values["reward"],
            "kl": values["kl"],
            "entropy": values["entropy"],
            "actor_grad_norm": values["grad_norm"],
        }
        logger.log_train(n, {**logs, "generated_samples": ["a text", 0.5]})
    logger.close()
    assert said_in_time(capsys.readouterr().err)
    records = list(read_records(Path("mine/records.jsonl")))
    assert [r.step for r in records] == list(range(1, STEPS + 1))
    assert json.loads(Path("mine/config.json").read_text(encoding="utf-8"))["group_size"] == 8
    assert '"a text"' in Path("mine/samples.jsonl").read_text(encoding="utf-8")


def test_skyrls_tracker_logs_the_verdict_with_each_step() -> None:
    rows: list[dict[str, float]] = []
    tracker = SimpleNamespace(log=lambda data, step: rows.append(data), finish=lambda: None)
    tracker = watched(tracker, {}, out="mine", on="critical=stop")
    tracker.log({"reward/avg_raw_reward": 0.1}, step=1)
    with pytest.raises(TrainingStopped):
        tracker.log({"policy/raw_grad_norm": float("nan"), "reward/avg_raw_reward": 0.1}, step=2)
    assert rows[0] == {"reward/avg_raw_reward": 0.1, "grpo_doctor/verdict": 0}
    assert (rows[1]["grpo_doctor/verdict"], rows[1]["grpo_doctor/GRD001"]) == (3, 3)


def test_skyrl(capsys: pytest.CaptureFixture[str]) -> None:
    module = pytest.importorskip(
        "skyrl.train.utils.tracking", reason="make test-hooks installs skyrl 0.3.0", exc_type=ImportError
    )
    config = {"trainer": {"algorithm": {"kl_loss_coef": 0.001}}, "generator": {"n_samples_per_prompt": 8}}
    tracker = watched(module.Tracking("project", "name", "console"), config, out="mine")
    for n in range(1, STEPS + 1):
        values = step(n)
        data = {
            "reward/avg_raw_reward": values["reward"], "policy/policy_kl": values["kl"],
            "policy/policy_entropy": values["entropy"], "policy/raw_grad_norm": values["grad_norm"],
        }  # fmt: skip
        tracker.log(data, step=n, commit=True)
    tracker.finish()
    stopping = watched(module.Tracking("project", "name", "console"), config, out="other", on="critical=stop")
    with pytest.raises(TrainingStopped):
        stopping.log({"policy/raw_grad_norm": float("nan"), "reward/avg_raw_reward": 0.1}, step=1)
    assert said_in_time(capsys.readouterr().err, "REW009")
    assert json.loads(Path("mine/config.json").read_text(encoding="utf-8"))["group_size"] == 8
    assert Path("mine/report.md").exists()


# -- NeMo-RL and slime: their documented signatures ---------------------------------------------------------------------


def test_nemo_rl(capsys: pytest.CaptureFixture[str]) -> None:
    logger = DoctorLogger({"grpo": {"num_generations_per_prompt": 8}}, out="mine")
    for n in range(1, STEPS + 1):
        values = step(n)
        logger.log_metrics({"accuracy": 0.5}, n, prefix="validation")
        logger.log_metrics(
            {"reward": values["reward"], "gen_kl_error": 1e-4, "kl_penalty": values["kl"], "grad_norm": values["grad_norm"]},
            n, prefix="train",
        )  # fmt: skip
        logger.log_metrics({"total_step_time": 3.0}, n, prefix="timing/train", step_finished=True)
    logger.log_metrics({"reward": 0.1}, STEPS + 1, prefix="train")
    logger.close()
    records = list(read_records(Path("mine/records.jsonl")))
    assert [r.step for r in records] == list(range(1, STEPS + 2))
    assert records[0].reward_mean == pytest.approx(step(1)["reward"])
    assert logger.run.diagnosis().verdict == "failing"
    stopping = DoctorLogger({}, out="other", on="critical=stop")
    with pytest.raises(TrainingStopped):
        stopping.log_metrics({"reward": 0.1, "grad_norm": float("nan")}, 1, prefix="train", step_finished=True)


def sample(group: int, reward: float, cut: bool) -> SimpleNamespace:
    status = SimpleNamespace(value="truncated" if cut else "completed")
    return SimpleNamespace(
        group_index=group, prompt=f"p{group}", response="text", response_length=7 + group, reward=reward, status=status
    )


def test_slime() -> None:
    hook, args = Hook(out="mine"), SimpleNamespace(n_samples_per_prompt=4, reward_key=None)
    for rollout in range(12):
        samples = [[sample(group, float(group == 0 and i == 0), cut=i == 3) for i in range(4)] for group in range(2)]
        assert hook(rollout, args, samples, {"rollout/extra": 1.0}, 2.0) is False
    records = list(read_records(Path("mine/records.jsonl")))
    assert [r.step for r in records] == list(range(12))
    first = records[0]
    assert (first.groups, first.zero_variance_groups, first.reward_mean) == (2, 1, 0.125)
    assert (first.response_length_mean, first.truncated_rate) == (7.5, 0.25)
    assert "text" in Path("mine/samples.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["openrlhf", "slime", "nemo_rl", "skyrl"])
def test_a_hook_is_a_page(name: str) -> None:
    path = Path(__file__).parents[2] / "grpo_doctor" / "integrations" / f"{name}.py"
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 80
    assert "ested on" in "\n".join(lines[:25]), "it says on what it was tested"
