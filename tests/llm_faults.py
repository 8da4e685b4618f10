"""What a large language model's server may do wrong; llm_stub.py plants it."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

ENGLISH_REFUSAL = "I'm sorry, but I can't help with the translation of this text."
INTRODUCTION = "Sure! Here is the translation:"
COMMENT = "Note: I have kept the numbers and all names as they are in the original text."
LOOP = " ".join(["und so weiter und so fort"] * 20)
ESCAPES = ("\x1b[31;1m", "\x1b]0;title\x07", "\x00", "\x08", "\x9b2J", "\u202e", "\r")
"""A terminal obeys them: colours, a title, a bell, a cleared screen, text from right to left."""
_FRENCH = "le chat de la voisine dort dans le jardin depuis ce matin parce que"
_DEPTH = 100_000
HUGE_BYTES = 50_000_000

Translate = Callable[[str], str]
ContentFault = Callable[[Sequence[str], Translate, bool], str]


def join_lines(lines: Sequence[str], *, is_numbered: bool) -> str:
    """Returns the content of an answer: numbered lines, or the only one."""
    if not is_numbered:
        return "\n".join(lines)
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1))


def _lack_line(lines: Sequence[str], translate: Translate, is_numbered: bool) -> str:
    """Leaves out a line and its number."""
    numbered = join_lines(list(map(translate, lines)), is_numbered=is_numbered).split("\n")
    middle = len(numbered) // 2
    return "\n".join([*numbered[:middle], *numbered[middle + 1 :]])


def _renumber(lines: Sequence[str], translate: Translate, is_numbered: bool) -> str:
    """Leaves out a line, and numbers the others from one on."""
    return join_lines(list(map(translate, lines))[:-1], is_numbered=is_numbered)


def _double_line(lines: Sequence[str], translate: Translate, is_numbered: bool) -> str:
    """Gives a line twice, with its number."""
    numbered = join_lines(list(map(translate, lines)), is_numbered=is_numbered).split("\n")
    middle = len(numbered) // 2
    return "\n".join([*numbered[: middle + 1], *numbered[middle:]])


def _merge_lines(lines: Sequence[str], translate: Translate, is_numbered: bool) -> str:
    """Joins the last two lines; a line alone has none to be joined with."""
    translated = list(map(translate, lines))
    return join_lines([*translated[:-2], " ".join(translated[-2:])], is_numbered=is_numbered)


def _swap_lines(lines: Sequence[str], translate: Translate, is_numbered: bool) -> str:
    """Gives the first line last, with its number."""
    first, *rest = join_lines(list(map(translate, lines)), is_numbered=is_numbered).split("\n")
    return "\n".join([*rest, first])


def _introduce(lines: Sequence[str], translate: Translate, is_numbered: bool) -> str:
    translated = join_lines(list(map(translate, lines)), is_numbered=is_numbered)
    return f"{INTRODUCTION}\n\n{translated}"


def _comment(lines: Sequence[str], translate: Translate, is_numbered: bool) -> str:
    translated = join_lines(list(map(translate, lines)), is_numbered=is_numbered)
    return f"{translated}\n\n{COMMENT}"


def _refuse(lines: Sequence[str], translate: Translate, is_numbered: bool) -> str:
    return ENGLISH_REFUSAL


def _refuse_each(lines: Sequence[str], translate: Translate, is_numbered: bool) -> str:
    return join_lines([ENGLISH_REFUSAL] * len(lines), is_numbered=is_numbered)


def _speak_french(lines: Sequence[str], translate: Translate, is_numbered: bool) -> str:
    words = _FRENCH.split()
    starts = [len(line) % len(words) for line in lines]
    french = [" ".join(words[start:] + words[:start]) for start in starts]
    return join_lines(french, is_numbered=is_numbered)


def _copy(lines: Sequence[str], translate: Translate, is_numbered: bool) -> str:
    return join_lines(lines, is_numbered=is_numbered)


def _truncate(lines: Sequence[str], translate: Translate, is_numbered: bool) -> str:
    """Ends in the last line; only `finish_reason` tells."""
    translated = join_lines(list(map(translate, lines)), is_numbered=is_numbered)
    return translated[: -max(1, len(translated) // len(lines) // 2)]


def _loop(lines: Sequence[str], translate: Translate, is_numbered: bool) -> str:
    return join_lines([*map(translate, lines[:-1]), LOOP], is_numbered=is_numbered)


def _be_empty(lines: Sequence[str], translate: Translate, is_numbered: bool) -> str:
    return ""


def _empty_line(lines: Sequence[str], translate: Translate, is_numbered: bool) -> str:
    """Has a number without a translation."""
    return join_lines([*map(translate, lines[:-1]), ""], is_numbered=is_numbered)


def _escape(lines: Sequence[str], translate: Translate, is_numbered: bool) -> str:
    """Puts each escape before a line's words and after them."""
    around = "".join(ESCAPES)
    return join_lines([f"{around}{translate(line)}{around}" for line in lines],
                      is_numbered=is_numbered)  # fmt: skip


def _lose_pieces(lines: Sequence[str], translate: Translate, is_numbered: bool) -> str:
    """Leaves out numbers and placeholders, which only `inference.protect` finds."""
    translated = [re.sub(r"\{[^{}]*\}|\d+", "", translate(line)) for line in lines]
    return join_lines(translated, is_numbered=is_numbered)


CONTENT_FAULTS: dict[str, ContentFault] = {
    "missing-line": _lack_line,
    "renumbered": _renumber,
    "doubled-line": _double_line,
    "merged-lines": _merge_lines,
    "swapped-lines": _swap_lines,
    "introduction": _introduce,
    "comment": _comment,
    "refusal": _refuse,
    "refused-lines": _refuse_each,
    "wrong-language": _speak_french,
    "copied": _copy,
    "truncated": _truncate,
    "repetition": _loop,
    "empty": _be_empty,
    "empty-line": _empty_line,
    "escapes": _escape,
    "lost-pieces": _lose_pieces,
}
"""What a well-formed answer says, by the fault's name."""

STATUS_FAULTS = ("busy", "failure", "html", "redirect", "leak", "busy-leak")
"""Answers with another status than 200: 429, 500, 503, 307; 401 and 503 that repeat the key."""
STREAM_FAULTS = ("broken", "reset", "drip", "huge")
"""Answers whose bytes end too early, never begin, come one a second, or are 50 millions."""
BODY_FAULTS = ("invalid-json", "nested", "other-shape", "not-utf-8")
"""Answers with the status 200 that aren't what the protocol says."""
FAULTS = (*CONTENT_FAULTS, *STATUS_FAULTS, *STREAM_FAULTS, *BODY_FAULTS)

_SHAPES: tuple[Any, ...] = (
    {"result": "ok"},
    [],
    None,
    17,
    {"choices": []},
    {"choices": {"0": "text"}},
    {"choices": [{"message": {"role": "assistant", "content": None}, "finish_reason": "stop"}]},
    {"choices": [{"message": {"role": "assistant", "content": 17}, "finish_reason": "stop"}]},
    {"choices": [{"text": "ein Text"}]},
    {"choices": ["ein Text"]},
    {"error": {"message": "the model is loading", "type": "unavailable"}},
)


def spoil_body(fault: str, body: bytes, draw: int) -> bytes:
    """Returns another body of an answer, for one of `BODY_FAULTS`; `draw` chooses a shape."""
    match fault:
        case "invalid-json":
            return body[: len(body) // 2]
        case "nested":
            return b'{"choices": ' + b"[" * _DEPTH + b"]" * _DEPTH + b"}"
        case "not-utf-8":
            return body.replace(b'"content": "', b'"content": "\xff\xfe\x80')
        case _:
            return json.dumps(_SHAPES[draw % len(_SHAPES)]).encode()


def spoil_status(fault: str, authorization: str, address: str) -> tuple[str, list[str], bytes]:
    """Returns the status, headers and body for one of `STATUS_FAULTS`."""
    message = {"message": f"Authorization: {authorization} " * 20, "type": "invalid"}
    leak = json.dumps({"error": message}).encode()
    match fault:
        case "busy":
            return "429 Too Many Requests", ["Retry-After: 0"], b'{"error": {"message": "slow"}}'
        case "failure":
            return "500 Internal Server Error", [], b'{"error": {"message": "it failed"}}'
        case "html":
            page = b"<html><body><h1>503 Service Unavailable</h1></body></html>"
            return "503 Service Unavailable", ["Content-Type: text/html"], page
        case "redirect":
            return "307 Temporary Redirect", [f"Location: {address}"], b""
        case "leak":
            return "401 Unauthorized", [], leak
        case _:
            return "503 Service Unavailable", ["Retry-After: 0"], leak
