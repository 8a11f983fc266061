"""Reports whether a change helped: python compare.py before.log after.log"""

import sys
from pathlib import Path

from grpo_doctor import diagnose
from grpo_doctor.compare import arms_of, compare
from grpo_doctor.compare.summary import headline
from grpo_doctor.readers import read

before, after = (arms_of([diagnose(run) for run in read(Path(path))])[0] for path in sys.argv[1:3])
found = compare(before, after)
print(found.verdict, "-", headline(found))
