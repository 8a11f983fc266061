"""Holds messages, titles, pages, advice, documents, ``--help`` and docstrings to plain technical English."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grpo_doctor.cli import COMMANDS, app_of
from grpo_doctor.diagnosis.catalogue import home, load
from grpo_doctor.diagnosis.check import Check
from grpo_doctor.diagnosis.remedies import SHARED
from grpo_doctor.diagnosis.wording import rendered
from tests import messages

ROOT = Path(__file__).parents[1]

BANNED = {
    r"\b(?:nats|bits|tokens|groups|prompts|responses|samples|rollouts|updates|steps|rows|calls|digits|seconds) an? "
    r"(?:token|step|update|rollout|prompt|epoch|response|sample|group|batch|side|run|line|row|second|check)\b": "per",
    r"\b(?:told|tells?|telling|spoken|speaks?)\b": "shows, reports",
    r"\b(?:stands?|stood) (?:at|for|in|above|below|between|there)\b": "is",
    r"\blies? (?:at|in|above|below|beyond|between|within|outside|inside)\b": "is",
    r"(?<!there )\bis no (?!longer|more\b|less\b)": "is not a",
    r"\bno whole number\b": "is not divisible by",
    r"\bfor want of\b": "without",
    r"\bfrom (?:the )?[\w.,%]+(?: [\w.,%]+)? on(?=[,.;:)]|$| (?:it|that|an?|is|on)\b)": "starting at",
    r"\b(?:behind|besides?)\b": "after, alongside",
    r"\bnobody\b": "no one; or passive",
    r"\b(?:mend(?:s|ed|ing)?|heal(?:s|ed|ing)?|cure[sd]?|sick|ill|ills|illness(?:es)?|accus\w+|innocent|twins?)\b": (
        "fix, failing, problem, reference run"
    ),
    r"\bdead (?:groups?|share)\b": "zero-variance groups",
    r"\bmoved first\b": "early indicators",
    r"\d %(?![\w(])": "95%, without a space",
    r"\btime-outs?\b": "timeout",
    r"\bhardly\b": "almost never",
    r"\b(?:pays?|paid|unpaid|bought)\b": "rewards, scores",
    r"\bnothing shows\b": "no evidence",
    r"\bby heart\b": "memorised",
    r"\bknob\b": "setting",
    r"\bP30\b|\bR0\d\d\b|\bseams?\b|\bfounding\b|\bthe lab\b": "name it, or explain it",
    r"\bfor (?:it|they|that|this|there|these|those) (?:is|are|was|were|has|have|does|may|would)\b": "because",
    r"\b(?:likeliest|surest|gravest|seldom|nought|anew|somebody|anybody)\b": "most likely, most severe, rarely, someone",
    r"\bof (?:its|their|his|our) own\b": "own, separate",
    r"(?<!there )\b(?:is|are) (?-i:none)\b": "is not a, has no",
    r"\bwhere (?:none|nothing|that) (?:is|are|has|have|does|may)\b|\bwhere (?:it|they) (?:has|have|does|do)\b": "if",
    r"\b(?:put|puts|putting) back\b|\bheld against\b|\bunder way\b|\bin force\b": "restore, compare, active",
    r"\bthe doctor\b": "grpo-doctor, the checks",
    r"\bstands? (?:on|under|over|next|apart|alone)\b|\bl(?:ie|ay|ain|ying) (?:at|in|above|below|on|along|apart|there)\b": "is",
    r"\bwent on\b|\bgo(?:es|ing)? on(?! to\b| the\b|line)\b": "continue",
    r"\bwhat (?:came|comes|lies|stands|stood|goes|becomes|became) ": "name the thing",
}
"""Expressions of LANGUAGE that no text may hold, and what to write."""

ALLOWED = {
    "lies about": "the tagline: a run that lies",
    "by hand-written": "a trainer that somebody wrote",
    "cannot tell": "a verdict of compare",
}
"""Words that hold a banned form and may, with the reason."""


CLAUSE = re.compile(r"(?:What|Where|Whose|Of|By) (?!a |this check)[a-z]")
"""How a description begins that names no thing and no action: "What fails", "Of the run", "Where it ends"."""
LONGEST = 30
"""Words of a sentence of a message."""
FAMILIES = sorted({check.family for check in load().checks.values()})
DOCUMENTS = [
    "README.md",
    "CHANGELOG.md",
    "Makefile",
    ".github/ARCHITECTURE.md",
    ".github/CONTRIBUTING.md",
    *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md")),
]
GENERATED = ("docs/messages.md", "docs/evidence/advisories.md")
"""Documents that hold what is tested elsewhere, or quotations."""


def banned(text: str) -> list[str]:
    """The banned forms in a text, outside code, each with its surroundings and what to write."""
    plain = re.sub(r"```.*?```|``[^`]*``|`[^`]*`|‹\w+›|https?://\S+", " ", text, flags=re.DOTALL)
    for words in ALLOWED:
        plain = plain.replace(words, " ")
    plain = " ".join(plain.split())
    return [
        f"{plain[max(0, m.start() - 30) : m.end() + 30]!r}: write {better}"
        for form, better in BANNED.items()
        for m in re.finditer(form, plain, re.IGNORECASE)
    ]


def too_long(text: str) -> list[str]:
    """The sentences of a message that are longer than `LONGEST` words."""
    return [s for s in re.split(r"(?<=[.!?]) ", text) if len(s.split()) > LONGEST]


@cache
def checks_of(family: str) -> list[Check]:
    return [check for check in load().checks.values() if check.family == family]


def templates(check: Check) -> list[str]:
    """The messages of a check as they are written, the phrases that fill them, and its title."""
    found = messages.texts(check)
    traced = [check.traced({}).fires.message] if check.predicate is not None else []
    return list(dict.fromkeys([*traced, *found.sentences, *found.phrases]))


@pytest.mark.parametrize("family", FAMILIES)
def test_messages_and_titles_are_plain_english(family: str) -> None:
    found = []
    for check in checks_of(family):
        for text in (check.title, *(messages.sample(check.code, text) for text in templates(check))):
            found += [f"{check.code}: {form}" for form in banned(text)]
            found += [f"{check.code}: too long: {sentence}" for sentence in too_long(text)]
    assert found == []


def advised(file: Path) -> list[str]:
    """The words of a file of advice: what it holds as data, without what the lab measured."""
    document = tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    remedies = document.get("remedies", {}).values()
    rivals = [rival for name, entry in document.items() if name != "remedies" for rival in entry.get("rivals", [])]
    return (
        [r["title"] for r in remedies]
        + [r["evidence"] for r in remedies]
        + [t for r in rivals for t in r.values() if isinstance(t, str)]
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_pages_and_advice_are_plain_english(family: str) -> None:
    found = []
    for check in checks_of(family):
        page = re.sub(r"## Sources\n.*?(?=\n## |\Z)", "", check.page, flags=re.DOTALL)
        found += [f"{check.code}: {form}" for form in banned(page)]
    found += [form for text in advised(home("checks") / family / "advice.toml") for form in banned(text)]
    assert found == []


def test_shared_remedies_are_plain_english() -> None:
    assert [form for text in advised(SHARED) for form in banned(text)] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_plain_english(command: str) -> None:
    shown = CliRunner().invoke(app_of([command]), [command, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert shown.exit_code == 0
    assert banned(re.sub(r"[│╭╮╰╯─]", " ", shown.output)) == []


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if not d.startswith(GENERATED)])
def test_documents_are_plain_english(document: str) -> None:
    assert banned((ROOT / document).read_text(encoding="utf-8")) == []


def explained(file: Path) -> list[str]:
    """The docstrings and comments of a module, including those of constants and attributes, without its sources."""
    text = file.read_text(encoding="utf-8")
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT]
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr)]
    strings = [node.value.value for node in nodes if isinstance(node.value, ast.Constant)]
    prose = [re.sub(r"## Sources\n.*?(?=\n *## |\Z)|^ +[\w, ]+:(?= )", "", str(s), flags=re.S | re.M) for s in strings]
    return prose + comments


MODULES = {"reports": home("reports"), "checks": home("checks")} | {
    path.name: path
    for path in (ROOT / "grpo_doctor").iterdir()
    if path.suffix == ".py" or (path / "__init__.py").exists()
}


@pytest.mark.parametrize("package", sorted(MODULES))
def test_docstrings_and_comments_are_plain_english(package: str) -> None:
    path = MODULES[package]
    found = []
    for file in [path] if path.suffix else sorted(path.rglob("*.py")):
        for text in explained(file):
            found += [f"{file.name}: {form}" for form in banned(text)]
            found += [f"{file.name}: a relative clause as a sentence: {text[:60]!r}"] * bool(CLAUSE.match(text))
    assert found == []


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("value", [-0.00001, 0.0012345, 1234.5, 98765.0])
def test_messages_render_numbers_without_exponent_and_negative_zero(family: str, value: float) -> None:
    for check in checks_of(family):
        for text in templates(check):
            names = set(re.findall(r"\{(\w+)", text))
            shown = rendered(text, dict.fromkeys(names, value))
            if value > 0 and ".1e" not in text:  # a p-value
                assert not re.search(r"\de[+-]0\d", shown), f"{check.code}: {shown}"
            assert not re.search(r"(?<![\w.])-0(?:\.0+)?%?(?![\d.])", shown), f"{check.code}: {shown}"


@pytest.mark.parametrize("family", FAMILIES)
def test_phrases_of_messages_write_numbers_with_the_one_function(family: str) -> None:
    """An f-string with ``:.3g`` writes 1.23e+03; `grpo_doctor.diagnosis.wording.number` does not."""
    found = []
    for check in checks_of(family):
        for node in ast.walk(messages.source(check)):
            if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
                constant = isinstance(node.value, ast.Name) and node.value.id.isupper()
                if ast.unparse(node.format_spec).rstrip("'\"").endswith("g") and not constant:
                    found.append(f"{check.code}: line {node.lineno}")
    assert found == []


@pytest.mark.parametrize("name", ["faq", "headline", "success"])
def test_sentences_of_the_diagnosis_write_numbers_with_the_one_function(name: str) -> None:
    text = (ROOT / "grpo_doctor" / "diagnosis" / f"{name}.py").read_text(encoding="utf-8")
    assert re.findall(r"\{[^{}]*:\.\dg\}", text) == []


def test_the_page_of_messages_is_that_of_the_checks() -> None:
    page = messages.page()
    assert re.findall("‹.*?›", page) == [], "add a sample to tests/message_samples.toml"
    assert messages.PAGE.read_text(encoding="utf-8") == page, "run make messages"


@pytest.mark.parametrize(
    "text",
    [
        "40 updates a rollout",
        "The norm stands at 3.",
        "From step 12 on, the reward falls.",
        "20 is no multiple of 8",
        "for want of records",
        "a healthy twin",
        "dead groups",
        "not paid",
        "68 rows told before",
    ],
)
def test_finds_the_banned_forms(text: str) -> None:
    assert banned(text)


@pytest.mark.parametrize(
    "text", ["40 updates per rollout", "The norm is 3.", "is no longer logged", "from the settings", "`seams.py`"]
)
def test_leaves_plain_words_and_code_alone(text: str) -> None:
    assert banned(text) == []
