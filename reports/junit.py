"""Writes findings as JUnit XML: one suite per run, with a case for its verdict and one per finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from grpo_doctor import Diagnosis, Finding, Severity
from grpo_doctor.diagnosis.verdict import weight
from grpo_doctor.report.model import Options, coverage, excuse, when


def render(diagnoses: Sequence[Diagnosis], options: Options) -> str:
    """Render the report. A finding at ``options.fail_on`` or above fails its case, and an unjudged run is an error."""
    xml = JUnitXml("grpo-doctor")
    for diagnosis in diagnoses:
        suite = TestSuite(diagnosis.source)
        for one in options.suppressions:
            suite.add_property(one.kind, one.text)
        suite.add_testcases(list(_cases(diagnosis, options)))
        xml.add_testsuite(suite)
    xml.update_statistics()  # type: ignore[no-untyped-call]
    xml._elem.attrib.pop("skipped")  # the schema allows this attribute on a suite, but not at the top level
    written: bytes = xml.tostring()  # type: ignore[no-untyped-call]
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + written.decode("utf-8")


def _cases(diagnosis: Diagnosis, options: Options) -> Iterator[TestCase]:
    unjudged = Error(diagnosis.headline, "unjudged") if diagnosis.verdict == "unjudged" else None
    verdict = _case("verdict", diagnosis, unjudged)
    verdict.system_out = f"{diagnosis.verdict}: {diagnosis.headline}\n{coverage(diagnosis)}"
    yield verdict
    for finding in diagnosis.findings:
        yield _fired(diagnosis, finding, options)


def _fired(diagnosis: Diagnosis, finding: Finding, options: Options) -> TestCase:
    name = f"{finding.code} {finding.name}"
    if reason := excuse(diagnosis, finding, options):
        return _case(name, diagnosis, Skipped(f"accepted: {reason}"))
    words = f"{finding.message}\n{when(finding)}, confidence {finding.confidence}\n{finding.action}"
    fails = weight(finding) >= Severity.of(options.fail_on)
    if fails:
        failure = Failure(finding.message, finding.severity)
        failure.text = words
        return _case(name, diagnosis, failure)
    case = _case(name, diagnosis)
    case.system_out = f"{finding.severity}: {words}"
    return case


def _case(name: str, diagnosis: Diagnosis, result: Error | Failure | Skipped | None = None) -> TestCase:
    case = TestCase(name, classname=diagnosis.source, time=0.0)
    if result is not None:
        case.result = [result]
    return case
