"""Converts rows of rollouts to samples. Rows may be flat or nested, or contain columns, messages or turns. One table of
names covers all forms of rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from ..run import Call, Sample
from .tools import EMPTY, OF_ENVIRONMENT, failure, judged, of_action, of_message, split, tagged
from .words import FINISHES, NAMES, WORDS

_DEEPEST = 4
"""Maximum nesting depth of rows. For example, episodes may contain trajectories, which contain steps."""
_MOST = 10_000
"""Maximum number of rollouts per row."""
_ASSISTANT, _TOOL = (frozenset(WORDS["roles"][role]) for role in ("assistant", "tool"))
_ACTIONS = frozenset(("thought", "action"))
_OBSERVED = ("observation", "env_response", "tool_response", "result", "feedback")
_TEXTS = ("content", "text", "value", "choices", "message", "reasoning_content")
"""Keys that contain the text of a message or an API result. Reasoning is used only if there is no other text."""
_REWARDING = re.compile(r"rew|score|acc|correct|format|func", re.IGNORECASE)
"""Words in the names of columns that each contain the values of one reward function."""
_FAILED = re.compile(WORDS["inference"]["failed"])
_ACTED = re.compile(WORDS["tools"]["action"], re.DOTALL)
_OF_FILE = re.compile(r"(?:step|completions|rollouts?|iter(?:ation)?|gen)[-_ ]?0*(\d{1,9})(?!\d)|^0*(\d{1,9})$")
_LONGEST_ID = 200
_TEXTUAL = frozenset(("prompt", "response", "messages", "turns"))
"""Fields that contain texts or conversations."""
_INNER = frozenset(("response", "messages", "rollouts"))
"""Fields of which a row has at least one if the row is a rollout or contains rollouts."""


def step_of(name: str, folder: str) -> int | None:
    """Return the step in the name of a file or its folder, as in ``12.jsonl`` or ``step_12/rank_0.jsonl``."""
    for part in (name.split(".", 1)[0], folder):
        if found := _OF_FILE.search(part):
            return int(found[1] or found[2])
    return None


_OF_NAME = {name: (field, rank) for field, names in NAMES.items() for rank, name in enumerate(names)}
_QUALIFIED = re.compile(rf"^(?:(?:{'|'.join(WORDS['names']['qualifiers'])})_)+|_text$")
_OF_TEXT = {name: (field, len(_OF_NAME)) for name, (field, _) in _OF_NAME.items() if field in _TEXTUAL}


def meaning(key: str) -> tuple[str, int] | None:
    """Return the field of a key and its rank. The name of a text may begin with a qualifier, as in ``raw_response``."""
    name = key.lower().replace(" ", "_")
    return _OF_NAME.get(name) or _OF_TEXT.get(_QUALIFIED.sub("", name))


class _Layout(NamedTuple):
    """The meaning of the keys of a row."""

    places: dict[str, tuple[str, ...]]
    """The keys of each field, the most reliable key first."""
    texts: frozenset[str]
    """Keys of the prompt and the response."""
    spare: tuple[str, ...]
    """Keys without a known meaning. One of them may be the reward."""
    numbered: tuple[tuple[tuple[str, str], ...], ...]
    """Numbered keys and their names, grouped by number, if a row has several responses, as in ``output_1`` and
    ``score_1``."""


@lru_cache(512)
def _layout(keys: tuple[str, ...]) -> _Layout:
    found: dict[str, list[tuple[int, str]]] = {}
    for key in keys:
        if (told := meaning(str(key))) is not None:
            found.setdefault(told[0], []).append((told[1], key))
    places = {field: tuple(key for _, key in sorted(held)) for field, held in found.items()}
    if places.keys() == {"group", "reference"}:  # the row contains a solution without its question
        places["response"] = places.pop("reference")
    taken = {key for field, held in places.items() if field != "success" for key in held}
    texts = frozenset((*places.get("prompt", ()), *places.get("response", ())))
    return _Layout(places, texts, tuple(key for key in keys if key not in taken), _numbered(keys))


def _numbered(keys: tuple[str, ...]) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Return the keys that end in a number, grouped by number. Return an empty tuple unless every number has a
    response."""
    found: dict[str, list[tuple[str, str]]] = {}
    for key in keys:
        name, _, number = str(key).rpartition("_")
        if name and number.isdecimal():
            found.setdefault(number, []).append((key, name))
    told = [{known[0] for _, name in columns if (known := meaning(name))} for columns in found.values()]
    return tuple(map(tuple, found.values())) if told and all("response" in fields for fields in told) else ()


class _Row(NamedTuple):
    """A row, with the values of the fields in the row and in its nested mappings."""

    values: Mapping[str, Any]
    fields: dict[str, Any]
    spare: tuple[str, ...]


def _row(values: Mapping[str, Any]) -> _Row:
    layout, found = _layout(tuple(values)), dict[str, Any]()
    parts = [value for key, value in values.items() if isinstance(value, dict) and key not in layout.texts]
    for source, places in ((values, layout.places), *((part, _layout(tuple(part)).places) for part in parts)):
        for field, keys in places.items():
            for key in keys:
                if field not in found and (value := source[key]) is not None:
                    found[field] = _decoded(value) if isinstance(value, str) and value[:1] in _JSON else value
    return _Row(values, found, layout.spare)


_JSON, _NESTED = frozenset("[{"), (list, dict)


def _decoded(text: str) -> Any:
    """Decode a conversation or an object of numbers that a table stores as JSON. Other texts stay unchanged."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text
    if isinstance(value, list):
        return value if _is_conversation(value) else text
    return value if isinstance(value, dict) and value and all(figure(v) is not None for v in value.values()) else text


def rollouts_of(row: Mapping[str, Any], step: int | None = None) -> Iterator[Sample]:
    """Yield the rollouts of a row. A row without a response has no rollouts."""
    for number, values in enumerate(_opened(row, _DEEPEST)):
        if number == _MOST:
            return
        sample = _sample(_row(values), step)
        if sample is not None:
            yield sample


def _opened(row: Mapping[str, Any], deep: int) -> Iterator[Mapping[str, Any]]:
    """Split a row into rows of one rollout each."""
    places, _, _, numbered = _layout(tuple(row))
    if numbered:
        for columns in numbered:
            yield {**row, **{name: row[key] for key, name in columns}}
        return
    if not any(isinstance(value, _NESTED) for value in row.values()):
        yield row
        return
    for key in (*places.get("response", ()), *places.get("rollouts", ())):
        texts = row[key]
        if isinstance(texts, list) and texts and isinstance(texts[0], str):
            lists = {k: v for k, v in row.items() if isinstance(v, list) and len(v) == len(texts)}
            singular = {k.rstrip("s"): v for k, v in lists.items() if k.rstrip("s") not in row}
            for place, text in enumerate(texts):
                own = {k: v[place] for k, v in {**lists, **singular}.items()}
                yield {**row, **own, "response": text}
            return
    for key in (*places.get("rollouts", ()), *_unnamed(row, places)) if deep else ():
        inner = row[key]
        inner = list(inner.values()) if isinstance(inner, dict) else inner
        if _is_table(inner):
            above = {k: v for k, v in row.items() if k != key and not isinstance(v, list)}
            for child in inner:
                yield from _opened({**above, **child}, deep - 1)
            return
    yield row


def _is_table(value: Any) -> bool:
    """Return whether a value is a list of rows that are not messages."""
    rows = isinstance(value, list) and bool(value) and all(isinstance(child, dict) for child in value)
    return rows and _role(value[0]) is None


def _unnamed(row: Mapping[str, Any], places: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Yield the keys of lists whose rows have responses or rollouts, if the row itself has no response and no
    conversation."""
    if places.keys().isdisjoint(_TEXTUAL - {"prompt"}):
        for key, value in row.items():
            if _is_table(value) and not _layout(tuple(value[0])).places.keys().isdisjoint(_INNER):
                yield key


def _sample(row: _Row, step: int | None) -> Sample | None:
    held = row.fields.get
    prompt, response = held("prompt"), held("response")
    turns: int | None = None
    calls: list[Call] | None = None
    failed = False
    if isinstance(response, dict):
        response = response.get("choices") or prompt_text(response) or None
    talk = _talk(row) if "messages" in row.fields or "turns" in row.fields else None
    if talk is not None and response is not None and not _ends_in(talk, response):
        prompt, talk = prompt or talk, None
    if talk is not None:
        asked, text, calls, turns, failed = conversation(talk)
        asked = prompt_text(prompt) or asked
        if not turns:
            return None  # the list is a prompt or a dataset
    elif isinstance(response, list) and _is_conversation(response):
        _, text, calls, turns, failed = conversation(response)
        asked = prompt_text(prompt)
    elif isinstance(response, str) or (isinstance(response, list) and prompt_text(response)):
        text, calls = split(prompt_text(response))
        asked = prompt_text(prompt)
        turns = 1 + sum(call.result is not None for call in calls)
    else:
        return None
    if not calls and not held("tools") and not tagged(asked):
        calls = None
    own = whole(held("step"))
    return Sample(
        step=own if own is not None else step or 0,
        response=text,
        prompt=asked or None,
        calls=calls,
        turns=turns if calls is not None or turns != 1 else None,
        finish="environment" if failed else _finish(row, text),
        **{field: convert(row.fields[field]) for field, convert in _PLAIN.items() if field in row.fields},
        **_earned(row),
    )


def _ends_in(talk: list[Any], response: Any) -> bool:
    """Return whether the policy's last message in a conversation is the response, so that the conversation is the whole
    rollout."""
    last = next((turn for turn in reversed(talk) if isinstance(turn, dict) and _role(turn) in _ASSISTANT), {})
    text, calls = conversation(response)[1:3] if isinstance(response, list) else (prompt_text(response), None)
    _, said, made, _, _ = conversation([last])
    return said.strip().endswith(text.strip()) and bool(text.strip() or calls == made)


def _talk(row: _Row) -> list[Any] | None:
    """Return the conversation of a row; None if there is no conversation."""
    held = (row.fields.get(field) for field in ("messages", "turns"))
    return next((value for value in held if isinstance(value, list) and _is_conversation(value)), None)


def _is_conversation(value: list[Any]) -> bool:
    """Return whether a list is a conversation: messages, or turns of actions and observations."""
    first = next((turn for turn in value if isinstance(turn, dict)), None)
    return first is not None and (_role(first) is not None or any(map(_acts, first)))


def _acts(key: str) -> bool:
    """Return whether a key of a turn contains output of the policy: an action or a response."""
    return key in _ACTIONS or ((told := meaning(key)) is not None and told[0] == "response")


def _role(turn: Mapping[str, Any]) -> str | None:
    turn = _message(turn)
    role = turn.get("role", turn.get("from"))
    return role.lower() if isinstance(role, str) else None


def _message(turn: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the message of a turn. In API results, the message is nested in a choice."""
    inner = turn.get("message")
    return inner if isinstance(inner, dict) and "role" in inner else turn


def conversation(turns: list[Any]) -> tuple[str, str, list[Call], int, bool]:
    """Return the prompt, the policy's text, its tool calls with their results, its number of turns, and whether the
    environment failed. The environment counts as failed if an action that is not a tool call failed."""
    asked: list[str] = []
    said: list[str] = []
    calls: list[Call] = []
    count, acted, failed = 0, False, False
    for role, text, made in _messages(turns):
        waiting = next((call for call in calls if call.result is None and call.failure is None), None)
        if role == "assistant":
            own, tagged = split(text)
            said.append(own)
            calls += [*tagged, *made]
            count, acted = count + 1, _ACTED.search(text) is not None
        elif not count:
            asked.append(text)
        elif waiting is not None:
            waiting.result = text
        elif role == "tool" and not any(call.result == text for call in calls):
            calls.append(Call(name="tool", result=text))
        else:
            failed = failed or (acted and failure(text) in OF_ENVIRONMENT - {EMPTY})
    return "\n".join(asked), "\n".join(said), [judged(call) for call in calls], count, failed


def _messages(turns: list[Any]) -> Iterator[tuple[str, str, list[Call]]]:
    """Yield the role, the text and the tool calls of each message. A turn with an observation and an action is two
    messages."""
    for turn in turns:
        if not isinstance(turn, dict):
            continue
        turn = _message(turn)
        if (role := _role(turn)) is not None:
            kind = "assistant" if role in _ASSISTANT else "tool" if role in _TOOL else "user"
            yield kind, prompt_text(turn) or (_shown(turn.get("content")) if kind == "tool" else ""), of_message(turn)
            continue
        yield from _turn(turn)


def _shown(value: Any) -> str:
    """Return an action or its result as text. Data without a text becomes JSON."""
    text = prompt_text(value)
    return text if text or not isinstance(value, dict | list) else msgspec.json.encode(value).decode()


def _turn(turn: Mapping[str, Any]) -> Iterator[tuple[str, str, list[Call]]]:
    """Yield the messages of a turn of thoughts, actions and observations, in the order of the turn's keys."""
    said: list[str] = []
    made: list[Call] = []
    for key, value in turn.items():
        if value is None or (not (acts := _acts(key)) and key not in _OBSERVED):
            continue
        if acts:
            if isinstance(value, dict) and (call := of_action(value)) is not None:
                made.append(call)
            else:
                said.append(_shown(value))
            continue
        if said or made:
            yield "assistant", "\n".join(said), made
            said, made = [], []
        yield "user", _shown(value), []
    if said or made:
        yield "assistant", "\n".join(said), made


def prompt_text(value: Any, deep: int = _DEEPEST) -> str:
    """Return the text of a message, a list of messages, or another value."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(prompt_text(part, deep - 1) for part in value) if deep else ""
    if isinstance(value, dict):
        inner = next((value[key] for key in _TEXTS if value.get(key) is not None), None)
        return prompt_text(inner, deep - 1) if deep else ""
    return "" if value is None else str(value)


def _earned(row: _Row) -> dict[str, Any]:
    """Return the reward, its components, and whether the answer was correct."""
    held = row.fields.get("reward")
    parts: dict[str, float] = {}
    for source in (row.fields.get("components"), held):
        if isinstance(source, dict):
            parts |= {str(k): value for k, v in source.items() if (value := figure(v)) is not None}
    reward = None if isinstance(held, dict | list) else figure(held)
    if reward is None and parts and isinstance(held, dict):
        named = [parts[name] for name in NAMES["reward"] if name in parts]
        reward = named[0] if named else next(iter(parts.values())) if len(held) == 1 else None
    success = figure(row.fields.get("success"))
    if reward is None or not parts:
        left = {key: value for key in row.spare if isinstance(value := row.values[key], float)}
        if reward is None and len(left) == 1:
            reward = next(iter(left.values()))
        elif not parts:
            parts = {k: v for k, v in left.items() if _REWARDING.search(k)}
    known = success if success is not None and 0 <= success <= 1 else None
    return {"reward": reward, "components": parts if len(parts) > 1 else None, "success": known}


def _finish(row: _Row, text: str) -> str | None:
    """Return how the rollout ended; None if unknown."""
    word, error, cut = (row.fields.get(field) for field in ("finish", "error", "truncated"))
    if _FAILED.match(text) or (error and failure(str(error)) in OF_ENVIRONMENT):
        return "environment"
    flagged = ("length" if cut else "stop") if isinstance(cut, bool) else None
    return FINISHES.get(word.lower().rpartition(".")[2], flagged) if isinstance(word, str) else flagged


def _references(value: Any) -> list[str] | None:
    if isinstance(value, dict):
        value = next((value[name] for name in (*NAMES["reference"], "value") if value.get(name) is not None), None)
    values = value if isinstance(value, list) else [value]
    found = [text for held in values[:20] if isinstance(held, str | int | float) and (text := str(held).strip())]
    return found or None


def _identity(value: Any) -> str | None:
    return str(value)[:_LONGEST_ID] if isinstance(value, str | int) else None


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= _LONGEST_ID else None


def _flag(value: Any) -> bool | None:
    held = figure(value)
    return None if held is None or held not in (0, 1) else bool(held)


def figure(value: Any) -> float | None:
    """Return a number, or the number in a text; None if there is no number. Inspect's grades C and I are 1 and 0."""
    if value is None or type(value) is float:
        return value
    if isinstance(value, bool | int | float):
        try:
            return float(value)
        except OverflowError:
            return None
    if isinstance(value, dict) and "value" in value:
        return figure(value["value"])
    if isinstance(value, str) and len(value) < 40:
        try:
            return {"C": 1.0, "I": 0.0}[value] if value in ("C", "I") else float(value)
        except ValueError:
            return None
    return None


def whole(value: Any) -> int | None:
    """Return the integer part of a number that fits into a record; None if there is no such number."""
    held = figure(value)
    return int(held) if held is not None and abs(held) <= 2**62 else None


_PLAIN: dict[str, Callable[[Any], Any]] = {
    "group": _identity, "task": _word, "reference": _references, "tokens": whole, "advantage": figure, "valid": _flag
}  # fmt: skip
"""Fields of a sample that are read from one value of a row, with the function that converts the value."""
