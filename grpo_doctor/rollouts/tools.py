"""Extracts the tool calls of a response from a tagged transcript or from messages, and detects failed calls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ..run import Call
from .words import WORDS, any_word

_TAGS = WORDS["tools"]
_CALL = re.compile(rf"<({'|'.join(_TAGS['calls'])})>(.*?)(</\1>|\Z)", re.DOTALL)
_RESULT = re.compile(rf"<({'|'.join(_TAGS['results'])})>(.*?)(?:</\1>|\Z)", re.DOTALL)
_FENCED = re.compile(r"```(?:python|py|bash|sql)\n(.*?)```\s*```output\n(.*?)(?:```|\Z)", re.DOTALL)
_ANY = re.compile(rf"<(?:{'|'.join((*_TAGS['calls'], *_TAGS['results']))})>|```output\n")
_STRUCTURED = frozenset(_TAGS["structured"])
_FUNCTION = re.compile(r"<function=([\w.-]+)")
_LOOKED = 300
"""Number of characters at each end of a result that are searched for a failure. Long results are not searched in full,
because documents may mention errors."""
_KINDS = [(any_word(kind["words"]), kind["kind"]) for kind in WORDS["failures"]]
EMPTY = "empty result"
OF_ENVIRONMENT = frozenset(kind["kind"] for kind in WORDS["failures"] if kind.get("environment")) | {EMPTY}
"""Kinds of failure that the policy did not cause."""


def failure(result: str) -> str | None:
    """Return the kind of failure in the result of a call; None if there is no failure."""
    if not result.strip():
        return EMPTY
    shown = result if len(result) <= 2 * _LOOKED else f"{result[:_LOOKED]}\n{result[-_LOOKED:]}"
    return next((kind for words, kind in _KINDS if words.search(shown)), None)


def tagged(text: str) -> bool:
    """Return whether a text contains a tag of a call or a result. A prompt with such a tag explains how to call a
    tool."""
    return ("<" in text or "```output" in text) and _ANY.search(text) is not None


def split(text: str) -> tuple[str, list[Call]]:
    """Split a transcript into the policy's own text and its tool calls."""
    if not tagged(text):
        return text, []
    fenced = [Call(name="code", arguments=code, result=out) for code, out in _FENCED.findall(text)]
    text = _FENCED.sub(lambda match: f"```\n{match[1]}```", text)
    marks = sorted((*_CALL.finditer(text), *_RESULT.finditer(text)), key=lambda match: match.start())
    calls: list[Call] = []
    for mark in marks:
        if mark.re is _CALL:
            calls.append(_call(mark))
        elif calls and calls[-1].result is None:
            calls[-1].result = mark[2]
        else:  # parallel calls: results follow in order
            waiting = next((call for call in calls if call.result is None and call.failure is None), None)
            if waiting is not None:
                waiting.result = mark[2]
    return _RESULT.sub("", text), [judged(call) for call in (*fenced, *calls)]


def _call(mark: re.Match[str]) -> Call:
    """Parse a call between tags. An incomplete or invalid call is marked."""
    body = mark[2].strip()
    if mark[1] not in _STRUCTURED:
        return Call(name=mark[1], arguments=body)
    if named := _FUNCTION.search(body):
        return Call(name=named[1], arguments=body)
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeEncodeError):
        value = None
    if not isinstance(value, dict) or not value.get("name") or not mark[3]:
        return Call(name=mark[1], arguments=body, failure="invalid call")
    return Call(name=str(value["name"]), arguments=_arguments(value.get("arguments", value.get("parameters"))))


def of_message(message: Mapping[str, Any]) -> list[Call]:
    """Return the tool calls of an assistant message in OpenAI's format, or in Anthropic's content blocks."""
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    found = [call for block in blocks if _uses(block) and (call := of_action(block)) is not None]
    for call in message.get("tool_calls") or [message.get("tool_call") or message.get("function_call")]:
        if not isinstance(call, dict):
            continue
        inner = call.get("function")
        function = inner if isinstance(inner, dict) else call
        name = function.get("name") or (inner if isinstance(inner, str) else "")
        arguments = _arguments(function.get("arguments"))
        broken = not name or (isinstance(function.get("arguments"), str) and not _is_object(arguments))
        found.append(Call(name=str(name), arguments=arguments, failure="invalid call" if broken else None))
    return found


def _uses(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_use"


def of_action(action: Mapping[str, Any]) -> Call | None:
    """Return the tool call in an agent's action; None if it names no tool."""
    name = next((action[key] for key in ("tool_name", "tool", "name") if isinstance(action.get(key), str)), None)
    if name is None:
        return None
    given = next((action[key] for key in ("tool_args", "arguments", "args", "input") if key in action), None)
    return Call(name=name, arguments=_arguments(given))


def _is_object(arguments: str) -> bool:
    try:
        return not arguments.strip() or isinstance(msgspec.json.decode(arguments), dict)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return False


def _arguments(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else msgspec.json.encode(value).decode()


def judged(call: Call) -> Call:
    """Return a call after setting the kind of failure in its result."""
    if call.failure is None and call.result is not None:
        call.failure = failure(call.result)
    return call
