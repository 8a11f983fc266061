"""Finds functions of a trainer that look like entry points, and writes the adapter for them. The code is parsed with
`ast`, never executed."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..report.redaction import one_line
from .entry_points import AdapterError

_LOGPS = r"(log_?p(rob)?s?|log_?probabilit(y|ies))(_.*)?"

_ANY = r".*"
_IDS = r"ids|tokens|inputs|sequences?"
_ASKED = r"prompts?|messages|question|problem|example|chat|sample|tok.*"
_SAID = r"(answers|batch|candidates?|samples|responses?|completions?|experiences?|episodes?|group|trajector.*)"
_LOSES = r"model|batch|inputs|data|ids|prompts|responses|samples|.*rollout.*|group|experiences"

LIKE: dict[str, tuple[str, str]] = {
    "reference_logprobs": (rf"ref(erence)?_.*{_LOGPS}", rf"{_IDS}|batch"),
    "old_logprobs": (rf"(old|rollout|behaviou?r)_.*{_LOGPS}", rf"{_IDS}|batch"),
    "logprobs": (rf"(.*_)?{_LOGPS}", _IDS),
    "advantages": (r".*advantages?(_.*)?|normali[sz]e_rewards.*", r"rewards?(_t|_tensor)?|scores|group|episodes"),
    "reward": (r".*reward.*|(compute_)?score(_(response|completion|answer).*)?|(verify|grade|accuracy)(_.*)?", _ANY),
    "env_mask": (r".*(env|environment)_mask.*", _ANY),
    "tool_mask": (r".*tool_mask.*", _ANY),
    "mask": (r".*(completion|response|action|assistant|loss)_mask.*|build_masks?|tokenize_(pairs|prompt_and.*)", _ANY),
    "collate_sft": (r"(sft|supervised)_(collate|batch).*|collate_sft", _ANY),
    "render_sft": (r"(render|format|tokenize|build)_(sft|supervised|pair|example).*", _ANY),
    "render": (r"(render|build|format|make|encode)_(prompt|chat|messages).*", _ASKED),
    "extract": (r"(extract|cut|trim|strip)_(response|completion|prompt).*", r"ids|tokens|outputs?|sequences?"),
    "sync": (r"(?!.*ref)((sync|push|update|load)_(policy_)?weights.*|sync(_.*)?)", _ANY),
    "step": (
        r"((grpo|train(ing)?|policy|optimi[sz]er)_)?(update|step)(_(policy|model|microbatch).*)?|.*_epoch|"
        r"train_(policy_|model_)?on_.*",
        _ANY,
    ),
    "backward": (r"(accumulate|backward)(_.*)?", _ANY),
    "objective": (r"(?!.*(value|critic|sft|dpo|distil)).*(objective|loss).*", r"log_?p.*|ratio|(new|old)_.*"),
    "loss": (r"(.*_)?(loss(_fn|_func.*)?|objective)", _LOSES),
    "penalize": (r".*(penalt|suppress|process_logits).*", r"logits|scores"),
    "rollout": (rf"(.*_)?rollouts?(_.*)?|(gen|generate|sample|collect)_{_SAID}", _ANY),
    "sample": (r"generate|sample|sample_tokens", rf"{_IDS}|prompts?"),
}
"""For each entry point, patterns for the name of the function and of one of its parameters, the most specific first."""

_SCORED = {
    r"(input_|full_|sequence_|token_)?ids|tokens|sequences|inputs": "input_ids",
    r"(attention_|full_|sequence_|attn_)?mask": "attention_mask",
    r"(num_)?logits_to_keep": "input_ids.shape[1] - 1",
}
_JUDGED = {
    r"(model_|generated_)?(completion|response|text|output|generation)|solution_str|answer_text": "r",
    r"(gold_|ground_|correct_|reference_)?(answer|truth)|gold|target|label|solution": "a",
    r"prompt|question|problem": "p",
}
_BATCH = {
    r"prompts?(_ids)?": "prompts",
    r"(responses?|completions?|outputs?)(_ids)?": "responses",
    r"advantages?": "advantages",
}
_OF_TOKENS = {
    r"((new|current|policy|trainer|token|per_token)_)*log_?p(rob)?s?": "logprobs",
    r"(old|inference|rollout|sampling|behaviou?r)_(token_|per_token_)?log_?p(rob)?s?": "old_logprobs",
    r"ref(erence)?_(token_|per_token_)?log_?p(rob)?s?": "reference_logprobs",
    r"adv(antage)?s?": "advantages",
    r"((loss|completion|response|action|token)_)?mask": "mask",
}
_OF_GROUP = r"group_size|num_generations|k|n|num_samples|group"
RETURNED = {
    "rollout": r"(all_)?(completion|response|generated|generation|output|answer)(s|_ids|_tokens|_token_ids|_texts?)*",
    "loss": r".*loss.*",
    "objective": r".*loss.*",
    "logprobs": r".*log_?p.*",
    "reference_logprobs": r".*log_?p.*",
    "old_logprobs": r".*log_?p.*",
    "advantages": r".*adv.*",
    "reward": r".*(reward|score).*",
}
"""For entry points that return one value: its name if a function returns it among others."""

GIVEN: dict[str, tuple[str, dict[str, str]]] = {
    "reward": ("prompts, responses, answers", _JUDGED),
    "advantages": ("rewards", {r"rewards?(_t|_tensor)?|scores": "rewards", _OF_GROUP: "rewards.shape[1]"}),
    "logprobs": ("input_ids, attention_mask", _SCORED),
    "reference_logprobs": ("input_ids, attention_mask", _SCORED),
    "old_logprobs": ("input_ids, attention_mask", _SCORED),
    "render": ("prompt", {r"prompt|messages|question|problem|chat": "prompt"}),
    "rollout": (
        "prompts",
        {r"prompts?|questions?|batch|batch_samples|inputs|texts": "prompts", _OF_GROUP.replace("|group", ""): "1"},
    ),
    "loss": ("prompts, responses, advantages", _BATCH),
    "step": ("prompts, responses, advantages", _BATCH),
    "backward": ("prompts, responses, advantages", _BATCH),
    "env_mask": ("prompts", {r"prompts?": "prompts"}),
    "tool_mask": ("prompts", {r"prompts?": "prompts"}),
    "mask": ("prompts, responses", _BATCH),
    "sample": ("input_ids, attention_mask", _SCORED),
    "extract": ("tokens, input_ids, attention_mask", {r"tokens|outputs?|sequences": "tokens"}),
    "penalize": ("tokens, logits, prompt_length", {r"logits|scores": "logits", r"(input_)?ids|tokens": "tokens"}),
    "objective": ("logprobs, old_logprobs, reference_logprobs, advantages, mask, entropy", _OF_TOKENS),
    "sync": ("", {}),
    "render_sft": ("prompt, answer", {r"prompt|question": "prompt", r"answer|response": "answer"}),
    "collate_sft": ("prompts, answers", {}),
}
"""For each entry point its parameters, and the patterns for a function's parameters."""

_MODEL = r"(policy_?|actor_?)?(model|policy|actor)"
OBJECTS = {
    _MODEL: "model",
    r"tok(enizer)?|processing_class": "tokenizer",
    r"opt|optimizer": "optimizer",
    r"ref(erence)?(_model|_policy)?|base_model": "reference",
    r"device": "device",
}


SETTINGS = {
    r"(sampling_|rollout_)?temperature": "temperature",
    r"entropy_(coef|coeff|coefficient|weight|bonus)": "entropy_coef",
    r"kl_(coef|coeff|coefficient|weight|beta)|beta": "kl_coef",
    r"(clip_)?(eps|epsilon)|clip_(ratio|range)|(eps|epsilon)_clip": "epsilon",
    r"group_size|num_generations": "group_size",
}
"""Constants of a module that are settings of the record."""


class Found(NamedTuple):
    """A function that looks like an entry point."""

    seam: str
    name: str
    """Including the class of a method, or the enclosing function."""
    line: int
    parameters: list[str]
    required: list[str]
    """The parameters without a default."""
    returns: list[str]
    """The returned names, if a tuple is returned."""
    inside: bool = False
    """Whether it is nested in another function, so that nothing outside can call it."""


def discover(path: Path) -> tuple[list[Found], list[int]]:
    """Return the functions of a Python file that look like entry points, and the lines that run on import.

    Raises `AdapterError` if the file is unreadable or not Python.
    """
    try:
        tree = ast.parse(path.read_bytes(), filename=str(path))
        compile(tree, str(path), "exec", dont_inherit=True)  # the compiler rejects more, such as duplicate parameters
    except OSError as error:
        raise AdapterError(f"{path}: cannot be read: {error.strerror}") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise AdapterError(f"{path}: no Python that can be parsed: {one_line(str(error))}") from None
    found = [f for name, node, inside in _functions(tree) if (f := _seam(name, node, inside)) is not None]
    return found, [node.lineno for node in tree.body if _runs(node)]


def imported(path: Path) -> list[Path]:
    """Return the trainer's own files that a Python file imports: in its folder or one of the three parent folders, with
    or without ``src``."""
    names = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            names += [base, *(f"{base.rstrip('.')}.{a.name}" for a in node.names)]
        elif isinstance(node, ast.Import):
            names += [a.name for a in node.names]
    above = [path.parent, *list(path.absolute().parents)[1:4]]
    roots = [root for folder in above for root in (folder, folder / "src")]
    files = (root / f"{name.strip('.').replace('.', '/')}.py" for name in names for root in roots)
    return list(dict.fromkeys(f for f in files if os.path.isfile(f)))  # also true for files that cannot be read


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef, bool]]:
    """Yield functions, methods, and nested functions, as in a trainer's ``main``."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node, False
            yield from ((f"{node.name}.{f.name}", f, True) for f in node.body if isinstance(f, ast.FunctionDef))
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{f.name}", f, False) for f in node.body if isinstance(f, ast.FunctionDef))


def _seam(name: str, node: ast.FunctionDef, inside: bool) -> Found | None:
    given = [*node.args.posonlyargs, *node.args.args]
    without = len(given) - len(node.args.defaults)
    optional = [a.arg for a in given[without:]]
    keywords = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    parameters = [a.arg for a in (*given, *node.args.kwonlyargs) if a.arg not in ("self", "cls")]
    needed = [a.arg for a in given[:without]] + [a.arg for a, default in keywords if default is None]
    required = [p for p in needed if p not in ("self", "cls", *optional)]
    for seam, (called, taken) in LIKE.items():
        parts = [p for parameter in parameters for p in (parameter, parameter.rsplit("_", 1)[-1])]
        if re.fullmatch(called, node.name.lower()) and (
            taken == ".*" or any(re.fullmatch(taken, part.lower()) for part in parts)
        ):
            told = _by_its_calls(seam, node, parameters)
            if told is None:
                return None
            return Found(told, name, node.lineno, parameters, required, _returned(node), inside)
    return None


def _returned(node: ast.FunctionDef) -> list[str]:
    """Return the names in the last returned tuple of a function, without those of nested functions."""
    left: list[ast.AST] = list(node.body)
    found: list[str] = []
    while left:
        one = left.pop(0)
        if isinstance(one, ast.Return) and isinstance(one.value, ast.Tuple) and len(one.value.elts) > 1:
            found = [one_line(ast.unparse(e)) for e in one.value.elts]
        if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            left[:0] = ast.iter_child_nodes(one)
    return found


def _by_its_calls(seam: str, node: ast.FunctionDef, parameters: list[str]) -> str | None:
    """Classify an update by its calls: an optimizer step, only a backward, or neither (a loss).

    None if it calls neither and returns no loss, such as an update of a controller or of a sampler's weights. An
    objective that takes the model is a loss.
    """
    if seam == "objective":
        return "loss" if any(re.fullmatch(_MODEL, p.lower()) for p in parameters) else seam
    if seam not in ("step", "backward", "loss"):
        return seam
    called = {n.func.attr for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)}
    if "backward" in called:
        return "step" if "step" in called else "backward"
    if seam != "step":
        return "loss"
    returned = "".join(
        ast.unparse(n.value) for n in ast.walk(node) if isinstance(n, ast.Return) and n.value is not None
    )
    return "step" if "step" in called else "loss" if "loss" in returned.lower() else None


def _runs(node: ast.stmt) -> bool:
    """Return whether a top-level statement does more than define something."""
    if isinstance(node, ast.If):  # if __name__ == "__main__"
        return "__name__" not in ast.dump(node.test)
    if isinstance(node, ast.For | ast.While | ast.With | ast.Try):
        return True
    value = getattr(node, "value", None) if isinstance(node, ast.Expr | ast.Assign | ast.AnnAssign) else None
    return any(isinstance(n, ast.Call) for n in ast.walk(value)) if value is not None else False


class Held(NamedTuple):
    """The objects that exist after importing a module, as an adapter accesses them."""

    objects: dict[str, str]
    """Adapter resource (or "device") to the expression for it."""
    instances: dict[str, str]
    """Class to the expression for an instance."""
    settings: dict[str, str]


def held(path: Path, module: str) -> Held:
    """Return the top-level objects of a module, those that an instance of a class in it stores, and its settings."""
    tree = ast.parse(path.read_bytes())
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    found = Held({}, {}, {})
    for name, value in _assigned(tree.body):
        called = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""
        if called in classes:
            found.instances[called] = f"{module}.{name}"
            kept = _kept_by(classes[called])
            found.objects.update({known: f"{module}.{name}.{own}" for own in kept if (known := _resource(own))})
        elif isinstance(value, ast.Constant) and isinstance(value.value, int | float):
            setting = next((to for words, to in SETTINGS.items() if re.fullmatch(words, name.lower())), None)
            found.settings.update({setting: f"{module}.{name}"} if setting else {})
        elif (known := _resource(name)) is not None:
            found.objects[known] = f"{module}.{name}"
    loads = (n for n in tree.body if isinstance(n, ast.FunctionDef) and re.fullmatch("(load|get|make)_prompts", n.name))
    for node in loads:
        if len(node.args.args) == len(node.args.defaults) and not node.args.kwonlyargs:
            found.objects.setdefault("prompts", f"list({module}.{node.name}())[:4]")
    return found


def _assigned(body: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the names that statements assign, including tuples, and the value if there is one."""
    for node in body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        for target in targets:
            for one in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(one, ast.Name) and not (isinstance(value, ast.Constant) and value.value is None):
                    yield one.id, None if isinstance(target, ast.Tuple) else value


def _kept_by(node: ast.ClassDef) -> list[str]:
    """Return the attributes that the methods of a class assign."""
    targets = (t for n in ast.walk(node) if isinstance(n, ast.Assign) for t in n.targets)
    parts = (one for t in targets for one in (t.elts if isinstance(t, ast.Tuple) else [t]))
    return [p.attr for p in parts if isinstance(p, ast.Attribute) and getattr(p.value, "id", "") == "self"]


def _resource(name: str) -> str | None:
    known = {**OBJECTS, r"(train_|rl_)?prompts": "prompts"}
    return next((to for words, to in known.items() if re.fullmatch(words, name.lower())), None)


_MISSING = {
    "model": "the module whose forward and generate these functions call",
    "tokenizer": "its tokenizer",
    "optimizer": "the policy's optimizer",
    "reference": "the reference model, where it is a model of its own",
    "prompts": "2 to 8 of your prompts, of unequal length",
}
"""Objects that an adapter should name."""


def adapter_for(path: Path, found: list[Found], runs: list[int]) -> str:
    """Write an adapter file for these functions. It contains only what was found; missing parts are comments."""
    module = path.stem if path.stem.isidentifier() else "trainer"
    named = f"import {module}" if module == path.stem else f"# import {_plain(path.stem)}: its name is no identifier"
    has = held(path, module)
    lines = [
        f'"""Adapter for {_plain(path.name)}, written by `grpo-doctor probe --discover`.',
        "",
        "`grpo-doctor probe` executes this file and what it imports. Comments marked <- name what was not found:",
        'complete them, and remove the #."""',
        "",
        "from typing import Any",
        "",
        named,
    ]
    if runs:
        lines.append(f"# importing it runs line {', '.join(map(str, runs[:5]))}: move what trains under `if __name__`")
    lines.append("")
    for name, words in {**_MISSING, **dict.fromkeys(has.objects.keys() - _MISSING.keys(), "")}.items():
        known = has.objects.get(name)
        lines.append(f"{name}: Any = {known}" if known else f"# {name} = ...  # <- {words}")
    settings = ", ".join(f'"{name}": {value}' for name, value in has.settings.items())
    lines.append(f"settings = {{{settings}}}" if settings else '# settings = {"temperature": 1.0}  # <- as declared')
    chosen: dict[str, Found] = {}
    for f in sorted(found, key=lambda f: (f.inside, f.line)):
        chosen.setdefault(f.seam, f)
    if "reward" in chosen:
        lines.append('# graded = [("what is 2 + 10?", "12", "<answer>12</answer>", "<answer>13</answer>")]  # <- yours')
    for seam in dict.fromkeys(f.seam for f in found):
        lines += ["", "", *_function(module, chosen[seam], has)]
        lines += [f"# or {f.name}, line {f.line}" for f in found if f.seam == seam and f is not chosen[seam]]
    text = "\n".join(lines) + "\n"
    compile(text, "adapter", "exec", dont_inherit=True)
    return text


def _owner(module: str, found: Found, has: Held) -> tuple[str, list[str]]:
    """Return how an adapter calls a function, and what is missing for that."""
    owner, _, name = found.name.rpartition(".")
    if found.inside:
        return f"{module}.{name}", [f"{name} out of {owner}, where nothing can call it"]
    if not owner:
        return f"{module}.{found.name}", []
    instance = has.instances.get(owner)
    return f"{instance or 'trainer'}.{name}", [] if instance else [f"trainer, an instance of {owner}"]


def _function(module: str, found: Found, has: Held) -> list[str]:
    signature, known = GIVEN[found.seam]
    called, unknown = _owner(module, found, has)
    whole = found.seam != "reward" or _takes_all(found, known)
    if found.seam == "reward" and "completions" in found.parameters and not unknown:
        return [f"reward = {called}  # TRL's form is taken as it is"]
    arguments = []
    for parameter in found.parameters:
        value = _value(parameter, known, found.seam)
        if value is None and found.seam == "reward" and parameter.endswith("s"):
            one = _value(parameter[:-1], known, found.seam)
            value = (_ALL if whole else {k: f"[{k}]" for k in _ALL}).get(one or "")
        optional = parameter not in found.required
        lacks = value in OBJECTS.values() and value not in has.objects
        if value is not None and not (lacks and optional):
            arguments.append(f"{parameter}={value}")
            unknown += [value] if lacks else []
        elif not optional:
            arguments.append(f"{parameter}=...")
            unknown.append(parameter)
    call = f"{called}({', '.join(arguments)})"
    if found.returns and found.seam in RETURNED:
        fits = [n for n, name in enumerate(found.returns) if re.fullmatch(RETURNED[found.seam], name.lower())]
        call += f"[{fits[0] if fits else '...'}]"
        unknown += [] if fits else [f"which of ({_plain(', '.join(found.returns))})"]
    body = f"return {call}" if whole else f"return [{call} for p, r, a in zip(prompts, responses, answers)]"
    lines = [f"def {found.seam}({signature}):  # line {found.line}", f"    {body}"]
    missing = ", ".join(dict.fromkeys(unknown))
    return lines if not unknown else [f"# <- to fill in: {missing}", *(f"# {line}" for line in lines)]


_ALL = {"p": "prompts", "r": "responses", "a": "answers"}
"""Names of a reward's argument for one response, and of that for all responses."""


def _takes_all(found: Found, known: dict[str, str]) -> bool:
    """Return whether a reward function takes all responses in one call."""
    judged = [p for p in found.parameters if (_value(p, known, "") or _value(p.removesuffix("s"), known, "")) in _ALL]
    return bool(judged) and all(p.endswith("s") and _value(p, known, "") is None for p in judged)


def _value(parameter: str, known: dict[str, str], seam: str) -> str | None:
    for words, value in {**known, **OBJECTS}.items():
        if re.fullmatch(words, parameter.lower()):
            return "reference" if value == "model" and seam == "reference_logprobs" else value
    return None


def _plain(text: str) -> str:
    return "".join(c for c in text if c.isprintable()).replace('"""', "'''").replace("\\", "/")
