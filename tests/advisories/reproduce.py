"""Reproduces advisories on CPU: ``python -m tests.advisories.reproduce`` (``make advisories-repro``).

Each case runs the code of an affected and of a fixed release, taken from its wheel, and shows whether the bug occurs.
Single functions are executed outside their packages, because the packages need GPUs. The results are written to
``docs/evidence/advisories.md``.
"""

from __future__ import annotations

import ast
import datetime
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
WHEELS = ROOT / "build" / "advisories"
RESULTS = ROOT / "docs" / "evidence" / "advisories.md"


class Case(NamedTuple):
    """One advisory: what to run, the affected and the fixed release, and what is measured."""

    id: str
    package: str
    affected: str
    fixed: str
    measured: str
    run: Callable[[Path], tuple[bool, str]]


def functions(file: Path, names: Iterable[str]) -> dict[str, Any]:
    """Functions of a file, executed with torch alone."""
    import typing

    import torch

    tree = ast.parse(file.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in set(names)]
    space: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, **vars(typing)}
    exec(compile("from __future__ import annotations\n" + ast.unparse(tree), str(file), "exec"), space)
    return space


def masked_nan(root: Path) -> tuple[bool, str]:
    import torch

    space = functions(root / "verl/utils/torch_functional.py", ["masked_mean", "masked_sum"])
    mean = space["masked_mean"](torch.tensor([1.0, float("nan")]), torch.tensor([1.0, 0.0]))
    return bool(mean.isnan()), f"mean of [1, NaN] under the mask [1, 0]: {mean:.3g}"


def low_var_kl(root: Path) -> tuple[bool, str]:
    import torch

    space = functions(root / "verl/trainer/ppo/core_algos.py", ["kl_penalty", "kl_penalty_forward"])
    logprob = torch.tensor([-100.0], requires_grad=True)
    space["kl_penalty"](logprob, torch.tensor([-1.0]), "low_var_kl").sum().backward()
    assert logprob.grad is not None
    return bool(logprob.grad.isnan().any()), f"gradient where the log-ratio is 99: {logprob.grad.item():.3g}"


def plus_suffix(root: Path) -> tuple[bool, str]:
    import torch

    space = functions(root / "verl/trainer/ppo/core_algos.py", ["kl_penalty", "kl_penalty_forward"])
    try:
        value = space["kl_penalty"](torch.tensor([-1.0]), torch.tensor([-1.5]), "k3+")
    except NotImplementedError:
        return True, "k3+ raises NotImplementedError"
    return False, f"k3+ gives {value.item():.3g}"


def value_factor(root: Path) -> tuple[bool, str]:
    import torch

    file = root / "verl/trainer/ppo/core_algos.py"
    space = functions(file, ["compute_value_loss", "agg_loss"])
    helpers = functions(root / "verl/utils/torch_functional.py", ["masked_mean", "masked_sum", "clip_by_value"])
    space["verl_F"] = type(
        "verl_F", (), {name: staticmethod(helpers[name]) for name in helpers if callable(helpers[name])}
    )
    ones, zeros = torch.ones(1, 2), torch.zeros(1, 2)
    loss, _ = space["compute_value_loss"](zeros, ones, zeros, ones, 10.0)
    return float(loss) > 0.9, f"value loss of an error of 1: {float(loss):.3g}"


def kl_gradient(root: Path) -> tuple[bool, str]:
    import torch

    file = next(root.rglob("ppo_utils.py"))
    tree = ast.parse(file.read_text(encoding="utf-8"))
    node = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "compute_approx_kl")
    logprob = torch.tensor([[-1.0]], requires_grad=True)
    kl = functions(file, [node.name])[node.name](logprob, torch.tensor([[-2.0]]))
    return not kl.requires_grad, f"the KL requires a gradient: {kl.requires_grad}"


def kl_nan(root: Path) -> tuple[bool, str]:
    import torch

    compute = functions(next(root.rglob("ppo_utils.py")), ["compute_approx_kl"])["compute_approx_kl"]
    kl = compute(torch.tensor([[-1.0, 0.0]]), torch.tensor([[-1.0, float("nan")]]), torch.tensor([[1.0, 0.0]]), "k1")
    return bool(kl.isnan().any()), f"KL where the masked token is NaN: {kl.tolist()}"


def dora_unmerge(root: Path) -> tuple[bool, str]:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model: Any = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=16, n_head=2, vocab_size=32))
    adapter = LoraConfig(r=2, target_modules=r".*attn\.c_proj", fan_in_fan_out=True, use_dora=True)
    model = get_peft_model(model, adapter)
    layer: Any = next(module for name, module in model.named_modules() if name.endswith("attn.c_proj"))
    for name, parameter in layer.named_parameters():
        if "magnitude" in name:  # as training leaves it
            parameter.data *= torch.linspace(0.5, 1.5, len(parameter))
    before = layer.base_layer.weight.detach().clone()
    model.merge_adapter()
    model.unmerge_adapter()
    change = (layer.base_layer.weight - before).abs().max().item()
    return change > 1e-3, f"largest change of the base weights after merge and unmerge: {change:.2g}"


def teacher_nan(root: Path) -> tuple[bool, str]:
    import torch

    space = functions(root / "swift/rl_core/advantage.py", ["compute_teacher_logratio"])
    teacher, policy = torch.tensor([[-1.0, float("nan")]]), torch.tensor([[-1.0, -1.0]])
    ratio = space["compute_teacher_logratio"](teacher, policy, torch.tensor([[1.0, 0.0]]))
    return bool(ratio.isnan().any()), f"log-ratio where the masked token is NaN: {ratio.tolist()}"


CASES = (
    Case("RLA-2026-041", "verl", "0.4.1", "0.5.0", "masked_mean", masked_nan),
    Case("RLA-2026-042", "verl", "0.4.0", "0.4.1", "kl_penalty", low_var_kl),
    Case("RLA-2026-044", "verl", "0.7.1", "0.8.0", "kl_penalty", plus_suffix),
    Case("RLA-2026-048", "verl", "0.4.0", "0.4.1", "compute_value_loss", value_factor),
    Case("RLA-2026-110", "skyrl", "0.1.0", "0.2.0", "compute_approx_kl", kl_gradient),
    Case("RLA-2026-112", "skyrl", "0.2.0", "0.3.0", "compute_approx_kl", kl_nan),
    Case("RLA-2026-160", "peft", "0.20.0", "0.21.0", "merge_adapter, unmerge_adapter", dora_unmerge),
    Case("RLA-2026-106", "ms-swift", "4.4.0", "4.4.2", "compute_teacher_logratio", teacher_nan),
)


def unpacked(package: str, version: str) -> Path:
    """The files of a release, downloaded once."""
    folder = WHEELS / f"{package}-{version}"
    if not folder.exists():
        WHEELS.mkdir(parents=True, exist_ok=True)
        words = ["download", "--quiet", "--no-deps", "--disable-pip-version-check", f"{package}=={version}"]
        subprocess.run([sys.executable, "-m", "pip", *words, "-d", str(WHEELS)], check=True)
        (wheel,) = WHEELS.glob(f"{package.replace('-', '_')}-{version}-*.whl")
        zipfile.ZipFile(wheel).extractall(folder)
    return folder


def outcome(case: Case, version: str) -> tuple[bool, str]:
    """Return whether the bug occurs, and what was measured, in a process that imports this release."""
    root = unpacked(case.package, version)
    words = [sys.executable, "-m", "tests.advisories.reproduce", case.id, str(root)]
    environment = {"PYTHONPATH": f"{root if case.package == 'peft' else ROOT}:{ROOT}", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{case.id} with {case.package} {version}: {done.stderr.strip().splitlines()[-1]}")
    found, words_of_it = json.loads(done.stdout.splitlines()[-1])
    return bool(found), str(words_of_it)


def main() -> int:
    """Run every case; return 1 if a bug does not occur in the affected release, or occurs in the fixed one."""
    rows, wrong = [], 0
    for case in CASES:
        for version, expected in ((case.affected, True), (case.fixed, False)):
            there, words = outcome(case, version)
            wrong += there is not expected
            shown = "occurs" if there else "fixed"
            rows.append(f"| {case.id} | {case.package} {version} | `{case.measured}` | {shown} | {words} |")
            print(rows[-1], flush=True)
    used = " and ".join(f"{name} {metadata.version(name)}" for name in ("torch", "transformers"))
    head = "| advisory | release | what ran | bug | measured |\n|---|---|---|---|---|"
    told = (
        f"`make advisories-repro` wrote this page on {datetime.date.today().isoformat()}, on a CPU, with {used}. For each "
        "advisory, the command runs a function of an affected release and of a fixed release."
    )
    RESULTS.write_text(
        "\n\n".join(["# Reproduced advisories", told, "\n".join([head, *rows])]) + "\n", encoding="utf-8"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) == 3:
        one = next(case for case in CASES if case.id == sys.argv[1])
        print(json.dumps(one.run(Path(sys.argv[2]))))
    else:
        sys.exit(main())
