"""Renders the page of all advisories as Markdown, one section per package."""

from __future__ import annotations

from collections import Counter

from .database import advisories
from .entry import Advisory, Level

INTRODUCTION = """# Advisories

Known bugs of RL trainers and of the libraries that they use. `grpo-doctor preflight`, `analyze`, `probe` and `attach`
report those that affect a run (check CFG039). `grpo-doctor advisories PACKAGE==VERSION` lists those of a version.

An advisory applies if the version is in its range and each condition is known to hold. If a condition or the
version is not known, one line states that. Severity: an error means that the run learns nothing or the wrong thing, a
warning that it is biased or may fail, an info that only a log is wrong."""
FILTER = """<p><label>Filter: <input id="advisory-filter" type="search" placeholder="trl error lora"></label>
<span id="advisory-count"></span></p>
<script>
document.getElementById("advisory-filter").addEventListener("input", event => {
  const words = event.target.value.toLowerCase().split(/\\s+/).filter(Boolean);
  const heads = [...document.querySelectorAll('h3[id^="RLA-"]')];
  const shown = heads.filter(head => {
    const parts = [head];
    for (let next = head.nextElementSibling; next && !/^H[23]$/.test(next.tagName); next = next.nextElementSibling)
      parts.push(next);
    const text = parts.map(part => part.textContent).join(" ").toLowerCase();
    const fits = words.every(word => text.includes(word));
    parts.forEach(part => part.hidden = !fits);
    return fits;
  });
  document.getElementById("advisory-count").textContent = `${shown.length} of ${heads.length}`;
});
</script>"""
"""A search field on the page that hides the advisories without one of its words: package, severity, condition,
symptom."""
ORDER: tuple[Level, ...] = ("error", "warning", "info")


def page() -> str:
    """Return the page: a summary by package, then each advisory, the severe ones first."""
    every = advisories()
    packages = sorted({one.package for one in every})
    rows = ["| package | advisories | error | warning | info |", "|---|---|---|---|---|"]
    for package in packages:
        counted = Counter(one.severity for one in every if one.package == package)
        numbers = " | ".join(str(counted[level]) for level in ORDER)
        rows.append(f"| [{package}](#{package}) | {counted.total()} | {numbers} |")
    parts = [INTRODUCTION, "\n".join(rows), FILTER]
    for package in packages:
        listed = sorted((one for one in every if one.package == package), key=lambda one: ORDER.index(one.severity))
        parts += [f"## {package} {{#{package}}}", *map(_section, listed)]
    return "\n\n".join(parts) + "\n"


def _section(one: Advisory) -> str:
    conditions = [f"`{text}`" for text in (*one.when, *one.opt_in, *one.environment)] + [one.where] * bool(one.where)
    conditions += [f"not `{text}`" for text in one.unless]
    lines = [
        f"### {one.id} {{#{one.id}}}",
        "",
        f"**{one.title[0].upper()}{one.title[1:]}.** Package {one.package}, severity {one.severity}.",
        "",
        f"- Affected: {one.package} {one.range}" + (f", if {' and '.join(conditions)}" if conditions else ""),
        f"- Symptom: {one.symptom}",
        *([f"- In the log: {' and '.join(f'`{text}`' for text in one.signature)}"] if one.signature else []),
        f"- Effect: {one.effect}",
        f"- What to do: {one.do}",
        f"- Verified: {one.verified}{f' ({one.read})' if one.read else ''}",
        f"- Sources: {', '.join(map(_link, one.sources))}",
    ]
    return "\n".join(lines).replace("<", "&lt;")


def _link(source: str) -> str:
    """Return a source as a link: an issue or pull request, or a commit."""
    if "#" in source:
        where, _, number = source.partition("#")
        return f"[{source}](https://github.com/{where}/issues/{number})"
    where, _, commit = source.partition("@")
    return f"[{source}](https://github.com/{where}/commit/{commit})"
