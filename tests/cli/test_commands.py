"""The commands that ``--help`` shows, their parts and older names, panels of options, completion, and a missing file."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grpo_doctor import cli
from grpo_doctor.cli import common
from tests.cli.children import Done
from tests.cli.runs import write_run


def said(*words: str, cwd: Path = Path()) -> Done:
    """What a command line does that a user runs, two words and all."""
    out, errors = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(errors):
        patch.chdir(cwd)
        patch.setattr(sys, "argv", ["grpo_doctor", *words])
        with pytest.raises(SystemExit) as stop:
            cli.main()
    return Done(int(stop.value.code or 0), out.getvalue(), errors.getvalue())


def shown(panel: str) -> list[str]:
    return [name for name, command in cli.COMMANDS.items() if command.panel == panel and not command.hidden]


def test_help_shows_seven_commands_and_two_to_try() -> None:
    assert len(shown(cli.MAIN)) == 7
    assert shown(cli.TRY) == ["run", "demo"]
    text = CliRunner().invoke(cli.app, ["--help"]).output
    names = {line.split()[1] for line in text.splitlines() if line.startswith("│ ") and line[2] != " "}
    assert names & {"explain", "new-check", "share", "mcp", "init", "faults", "new-adapter"} == set()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("checks explain GEN001", "Responses are generated in train mode"),
        ("explain GEN001", "Responses are generated in train mode"),
        ("lab faults", "two-sample-groups"),
        ("faults", "two-sample-groups"),
        ("agent", "agent mcp"),
        ("agent init --help", "skill"),
        ("checks new --help", "ENT050"),
    ],
)
def test_parts_and_older_names_work(words: str, part: str) -> None:
    assert part in said(*words.split()).stdout


@pytest.mark.parametrize("words", ["checks explain", "explain", "lab faults", "agent init", "checks new"])
def test_help_of_a_part_shows_the_two_words_that_call_it(words: str) -> None:
    two = "checks explain" if words == "explain" else words
    assert f"grpo_doctor {two} " in said(*words.split(), "--help").stdout


@pytest.mark.parametrize("command", ["agent", "checks", "lab"])
def test_help_of_a_command_lists_its_parts(command: str) -> None:
    shown = " ".join(said(command, "--help").stdout.split())
    assert all(f"grpo-doctor {' '.join(part)}" in shown for part in cli.PARTS if part[0] == command)


def test_help_has_no_line_breaks_of_the_source_and_lists_formats_and_severities() -> None:
    text = CliRunner().invoke(cli.app, ["analyze", "--help"], terminal_width=200, env={"COLUMNS": "200"}).output
    assert "3 input not judged, 4 internal error." in text
    words = " ".join(text.replace("│", " ").split())
    assert "info, warning, error or critical" in words
    assert "gitlab, html, json" in words


def test_a_written_report_is_named_and_a_path_that_is_given_twice_is_judged_once(tmp_path: Path) -> None:
    write_run(tmp_path / "run.jsonl", collapsed=False)
    done = said("analyze", "run.jsonl", "./run.jsonl", "--report", "html=out.html", cwd=tmp_path)
    assert "grpo-doctor: wrote out.html" in done.stderr
    assert done.stdout.count("run.jsonl") == 1


def test_probe_init_writes_an_adapter_to_fill_in(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli.app, ["probe", str(tmp_path / "adapter.py"), "--init"])
    assert (done.exit_code, (tmp_path / "adapter.py").is_file()) == (0, True)


def test_convert_anonymize_keeps_numbers_and_no_texts(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text('{"step": 1, "reward": 0.5, "prompt": "secret words"}\n', encoding="utf-8")
    assert said("convert", "run.log", "shared.log", "--anonymize", cwd=tmp_path).returncode == 0
    text = (tmp_path / "shared.log").read_text(encoding="utf-8")
    assert ("0.5" in text, "secret" in text) == (True, False)


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("nope.log", "grpo-doctor: nope.log: no such file\n"),
        ("runs/a", "grpo-doctor: runs/a: no such file\n"),
        ("runn", "grpo-doctor: runn: no such file or command; `grpo-doctor --help` lists the commands\n"),
        ("comparee", "grpo-doctor: comparee: no such file or command; did you mean `grpo-doctor compare`?\n"),
    ],
)
def test_a_missing_file_is_named_and_no_training_is_suggested(tmp_path: Path, word: str, line: str) -> None:
    done = said(word, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, line)


def test_options_of_analyze_are_in_panels() -> None:
    text = CliRunner().invoke(cli.app, ["analyze", "--help"]).output
    places = [text.index(f" {panel} ─") for panel in cli.PANELS]
    assert places == sorted(places)


def test_the_shell_completes_codes_and_formats() -> None:
    assert "GEN001" in common.codes("gen0")
    assert common.formats("ht") == ["html"]


def test_the_shell_completes_numbers_and_names_of_runs(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_run(tmp_path / name / "records.jsonl", collapsed=name == "b")
    assert completed("analyze", str(tmp_path), "--run", "") == ["1", "2", "a/records.jsonl", "b/records.jsonl"]
    assert completed("analyze", str(tmp_path), "--run", "b") == ["b/records.jsonl"]
    rows = [f'{{"step": {step}, "reward": {run + step / 100}}}\n' for run in (0, 1) for step in range(20)]
    (tmp_path / "two.jsonl").write_text("".join(rows), encoding="utf-8")
    assert completed("convert", str(tmp_path / "two.jsonl"), "--run", "") == ["1", "2"], "its names need quotes"
    assert completed("analyze", "-", str(tmp_path / "none"), "--run", "") == [""]


def completed(*words: str) -> list[str]:
    """Return what bash offers for the last word."""
    asked = {"_GRPO_DOCTOR_COMPLETE": "complete_bash", "COMP_CWORD": str(len(words))}
    line = {"COMP_WORDS": " ".join(["grpo-doctor", *words])}
    return CliRunner().invoke(cli.app, env=asked | line, prog_name="grpo-doctor").stdout.split("\n")[:-1]


def test_the_skill_goes_where_the_agent_of_this_folder_reads(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    assert said("agent", "init", cwd=tmp_path).returncode == 0
    assert (tmp_path / ".claude" / "skills" / "grpo-doctor" / "SKILL.md").is_file()


def test_color_is_kept_in_a_pipe_where_it_is_asked_for(tmp_path: Path) -> None:
    log = write_run(tmp_path / "r.jsonl", collapsed=True)
    assert "\x1b[" in said("analyze", str(log), "--color").stdout
    assert "\x1b[" not in said("analyze", str(log)).stdout
