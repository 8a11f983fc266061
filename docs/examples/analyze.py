"""Diagnoses a log from Python: python analyze.py train.log"""

import sys

from grpo_doctor import diagnose

diagnosis = diagnose(sys.argv[1])
print(diagnosis.verdict, "-", diagnosis.headline)
for finding in diagnosis.findings:
    print(f"{finding.code} {finding.severity} since step {finding.onset_step}: {finding.message}")
    for remedy in finding.remedies[:1]:
        print("  do this:", remedy.title)
