"""Rules for the project as a whole."""

from __future__ import annotations

import ast
import dis
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from benchmarks import live
from benchmarks.corpus import first_sight
from grpo_doctor.cli import COMMANDS, app
from grpo_doctor.cli.common import BROKEN, CLEAN, FINDINGS, UNJUDGED, WRONG
from grpo_doctor.diagnosis.catalogue import home, load, python_files, refuse_unknown_settings, report_names
from grpo_doctor.diagnosis.remedies import shared_remedies
from grpo_doctor.record import NUMBER_FIELDS
from grpo_doctor.report.check_pages import written
from grpo_doctor.run import WORDED
from tests.cli.runs import write_run
from tests.messages import row_of

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8") for p in sorted((ROOT / "docs").rglob("*.md"))}
DOCS = "\n".join([README, *PAGES.values()])
HEAVY = ("torch", "transformers", "pandas", "scipy", "matplotlib", "jinja2", "pyarrow", "duckdb")
AVOIDABLE = (
    "numpy.ma",
    "importlib.metadata",
    "grpo_doctor.rollouts",
    "grpo_doctor.lab",
    "grpo_doctor.engine",
    "asyncio",
)
"""What `analyze` of plain records has no need of."""


def python(code: str, cwd: Path = ROOT) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=cwd, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_benchmark_of_a_live_step_records_every_field() -> None:
    assert {*live.LEVELS, *live.FIXED, *live.COUNTED, *live.ELSEWHERE} == {*NUMBER_FIELDS} - {"step"}


def test_catalogues_hold_no_init_file() -> None:
    assert [p for name in ("checks", "reports") for p in home(name).rglob("__init__.py")] == []


@pytest.mark.parametrize("what", ["import grpo_doctor", "from grpo_doctor.diagnosis.catalogue import load; load()"])
def test_importing_loads_nothing_heavy(what: str) -> None:
    assert python(f"{what}\nimport sys; print([m for m in {HEAVY} if m in sys.modules])").strip() == "[]"


def test_analyze_loads_nothing_heavy(tmp_path: Path) -> None:
    rows = "".join(f'{{"schema":1,"step":{step},"reward_mean":{0.5 + step % 7 / 100}}}\n' for step in range(1, 101))
    (tmp_path / "records.jsonl").write_text(rows, encoding="utf-8")
    code = (
        "import sys\nfrom grpo_doctor.cli import main\n"
        f"sys.argv = ['grpo-doctor', 'analyze', {str(tmp_path / 'records.jsonl')!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print([m for m in {(*HEAVY, *AVOIDABLE)} if m in sys.modules])"
    )
    assert python(code).splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("probe adapter.py", "probing needs torch"),
        ("lab", "lab: torch is not installed"),
        ("run", "training needs torch"),
    ],
)
def test_commands_that_need_torch_name_it_in_one_line(tmp_path: Path, command: str, why: str) -> None:
    code = (
        "import sys\nsys.modules['torch'] = None\nfrom typer.testing import CliRunner\n"
        f"from grpo_doctor.cli import app\ndone = CliRunner().invoke(app, {command.split()!r})\n"
        "print(done.exit_code, done.output)"
    )
    told = f"2 grpo-doctor: {why}; from a checkout: pip install '.[train]'"
    assert python(f"import sys; sys.path.append({str(ROOT)!r})\n{code}", tmp_path).strip() == told


def test_modules_of_a_user_named_checks_or_reports_do_not_interfere(tmp_path: Path) -> None:
    (tmp_path / "checks.py").write_text("mine = 1\n", encoding="utf-8")
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "__init__.py").write_text("mine = 2\n", encoding="utf-8")
    code = (
        f"import sys; sys.path.append({str(ROOT)!r})\nimport checks, reports, grpo_doctor\n"
        "from grpo_doctor.diagnosis.catalogue import load, report\nassert load().checks and report('json').render\n"
        "print(checks.mine, reports.mine)"
    )
    assert python(code, tmp_path).strip() == "1 2"


def test_the_wheel_carries_the_catalogues_inside_the_package(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    names = zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist()
    for folder in ("checks", "reports"):
        inside = {f"grpo_doctor/{folder}/{p.relative_to(home(folder)).as_posix()}" for p in python_files(home(folder))}
        assert inside <= set(names)
    assert "grpo_doctor/py.typed" in names
    assert [name for name in names if name.startswith("grpo_doctor/lab/")] == []
    tops = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"grpo_doctor"}


def test_a_wheel_that_is_built_again_is_the_same(tmp_path: Path) -> None:
    built = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True, capture_output=True
        )
        built.append({path.name: path.read_bytes() for path in folder.iterdir()})
        os.utime(ROOT / "README.md")
    assert built[0] == built[1]
    assert {name.partition("-")[0] for name in built[0]} == {"grpo_doctor"}


def test_the_generated_pages_are_current() -> None:
    folder = home("checks")
    expected = written(load())
    assert {p.relative_to(folder).as_posix() for p in folder.rglob("*.md")} == expected.keys()
    stale = [name for name, text in expected.items() if (folder / name).read_text(encoding="utf-8") != text]
    assert stale == [], "run `make pages`"


PRIVATE = re.compile(r"[Ff]ounding document|\bdocument 0\d\d\b|\bR[01]\d\d\b|throw-away|[A-Z]+-NOTES|CATALOGUE\.md")
"""Names of what no reader of the repository can open."""


def test_pages_cite_only_accessible_sources() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "checks").rglob("*.md")]
    named = {page.name: PRIVATE.findall(page.read_text(encoding="utf-8")) for page in pages}
    assert {name: words for name, words in named.items() if words} == {}


def test_the_readme_names_every_command_of_the_help_and_no_page_another() -> None:
    named = r"(?:`|^\$ |^)grpo-doctor ([a-z][a-z-]+)(?![a-z-]*[./])\b"
    shown = {name for name, command in COMMANDS.items() if not command.hidden}
    assert set(re.findall(named, README, re.MULTILINE)) == shown
    assert shown <= set(re.findall(named, DOCS, re.MULTILINE)) <= COMMANDS.keys()


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 120


def test_the_changelog_is_short() -> None:
    assert len((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.parametrize("page", ["README.md", *PAGES])
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", README if page == "README.md" else PAGES[page]):
        assert ((ROOT / page).parent / link).exists(), f"{page}: {link}"


def test_the_docs_name_every_exit_code_and_format() -> None:
    table = dict(re.findall(r"^\| (\d) \| (.+) \|$", PAGES["docs/ci.md"], re.MULTILINE))
    assert set(table) == {str(code) for code in (CLEAN, FINDINGS, WRONG, UNJUDGED, BROKEN)}
    for name in report_names():
        assert f"`{name}`" in DOCS, name


@pytest.mark.parametrize("name", sorted(typer.main.get_command(app).commands))  # type: ignore[attr-defined]
def test_every_option_has_help(name: str) -> None:
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    assert (command.help or "").strip()
    assert [p.opts for p in command.params if not (getattr(p, "help", None) or "").strip()] == []


@pytest.mark.parametrize("name", report_names())
def test_the_readmes_example_of_every_format_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    row = re.search(rf"^\| `{name}` \| .* \| `(?:grpo-doctor analyze run\.log ?)?(.*)` \|$", DOCS, re.MULTILINE)
    assert row is not None
    monkeypatch.chdir(tmp_path)
    write_run(Path("run.log"), collapsed=True)
    result = CliRunner().invoke(app, ["analyze", "run.log", *row[1].split()])
    assert result.exit_code == FINDINGS, result.output
    files = [word.split("=")[1] for word in row[1].split() if "=" in word]
    assert all(Path(file).stat().st_size > 100 for file in files)
    if not files:
        assert result.stdout.strip()


def test_the_makefile_keeps_the_readmes_promises() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"`make ([a-z-]+)`", DOCS)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("code", sorted(load().checks))
def test_every_threshold_has_a_meaning_and_is_used(code: str) -> None:
    check = load().checks[code]
    assert check.limits.keys() == check.meanings.keys()
    row = row_of(check)
    parts = ((check.predicate, check.thresholds), (check.probe, check.probe_thresholds))
    for function, limits in (*parts, (check.across, check.across_thresholds)):
        used = {i.argval for i in dis.get_instructions(function) if i.opname.startswith("LOAD_")} if function else set()
        used |= set(re.findall(r"\w+", str({key: row[key] for key in row.keys() - {"thresholds", "page"}})))
        assert limits.keys() <= used
        assert all(isinstance(limit, int | float) for limit in limits.values())


def words_asked(file: Path) -> Iterator[str]:
    """Yield the settings that a check compares with words."""
    for function in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(function, ast.FunctionDef):
            arguments = function.args.args[len(function.args.args) - len(function.args.defaults) :]
            given = dict(zip((a.arg for a in arguments), function.args.defaults, strict=True))
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "is_any" and "'" in ast.unparse(call):
                    default = given.get(ast.unparse(call.args[0]))
                    yield from re.findall(r"settings\.(\w+)", ast.unparse(default) if default else "")


def test_a_setting_that_is_compared_with_words_is_known_to_be_one() -> None:
    asked = {name for file in python_files(home("checks")) for name in words_asked(file)}
    tables = [file for file in home("checks").rglob("*.toml") if file.name != "advice.toml"]
    conditions = "".join(file.read_text(encoding="utf-8") for file in tables)
    in_tables = {name for words in re.findall(r'"([a-z_|]+) is ', conditions) for name in words.split("|")}
    assert asked
    assert "algorithm" in in_tables
    asked |= in_tables
    assert asked <= WORDED, "add it to WORDED in grpo_doctor/run.py, or the word never reaches the check"


def test_recipes_stand_alone() -> None:
    """A report shows only the recipe of the trainer that wrote the log, so a recipe must not refer to a previous
    one."""
    offered = {r.id: r for check in load().checks.values() for r in (*check.remedies, *check.advice.probe_remedies)}
    recipes = [step.do for remedy in {**shared_remedies(), **offered}.values() for step in remedy.steps]
    assert len(recipes) > 100
    assert not [do for do in recipes if do.lower().startswith(("the same in", "as above", "likewise", "see "))]


def test_every_setting_that_a_rule_asks_for_exists() -> None:
    refuse_unknown_settings(load().checks.values())


def test_every_remedy_that_a_check_names_exists() -> None:
    load().refuse_unknown_remedies()


def test_the_readme_shows_the_stored_accuracy() -> None:
    page = (ROOT / "docs/evidence/accuracy.md").read_text(encoding="utf-8")
    table = re.findall(r"^\|.*\|$", page.partition("\n\n|")[2].partition("\n\n")[0], re.MULTILINE)
    assert len(table) > 5
    assert "\n".join(table) in README
    assert re.search(r"measured on \d{4}-\d{2}-\d{2} with version \S+ \(command:\s`[^`]+`\)", page)
    assert first_sight.summary(first_sight.stored()) in README
    assert first_sight.table(first_sight.stored()) in page


def test_no_heading_of_a_page_contains_its_text() -> None:
    pages = sorted((home("checks") / "pages").glob("*.md"))
    headings = {line for page in pages for line in page.read_text("utf-8").splitlines() if line.startswith("##")}
    assert len(pages) > 100
    assert [line for line in headings if len(line) > 60] == []


@pytest.mark.parametrize("code", ["LEN003", "PAD002", "CFG002"])
def test_a_page_has_what_why_and_remedy_before_its_details(code: str) -> None:
    headings = re.findall(r"^### (.+)$", (home("checks") / "pages" / f"{code}.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == "What it sees"
    known = ["What it sees", "Why it matters", "Remedy", "Steps", "Thresholds", "Known false alarms", "Sources"]
    found = [heading for heading in headings if heading in known]
    assert found == [heading for heading in known if heading in found]
    assert headings[-1] == "Sources"
