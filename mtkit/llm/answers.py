"""Checks of a large language model's answers: as many lines as were asked for, and nothing else."""

import unicodedata

import regex

_NUMBERED = regex.compile(r"(\d{1,4})[.):]\s*+(.+)")
_THOUGHTS = regex.compile(r"\A\s*<think>.*?</think>", regex.DOTALL)
_REFUSAL = regex.compile(
    r"\W*(?:(?:i(?:'|’)?m|i am|we(?:'|’)?re)\s+(?:very\s+)?(?:sorry|afraid|unable)\b"
    r"|(?:sorry|unfortunately),?\s+(?:but\s+)?i\s+(?:can|am|won)"
    r"|i\s+(?:can(?:'|’)?t|cannot|won(?:'|’)?t|am\s+(?:not\s+able|unable))\s+"
    r"(?:translate|assist|help|provide|fulfil|comply|do\s+that|process)"
    r"|as\s+an?\s+(?:ai|large\s+language|language)\b"
    r"|(?:es\s+tut\s+mir\s+leid|entschuldigung),?\s+(?:aber\s+)?ich\s+kann\b"
    r"|als\s+(?:eine?\s+)?(?:ki|sprachmodell)\b"
    r"|(?:je\s+suis\s+)?d[ée]sol[ée]e?,?\s+(?:mais\s+)?je\s+ne\s+peux)",
    regex.IGNORECASE,
)
_INTRODUCTION = regex.compile(
    r"\W*(?:sure|certainly|of\s+course|okay|here(?:(?:'|’)s|\s+is|\s+are)|(?:the\s+)?translat(?:ion|ed)"
    r"|gern|nat(?:ü|ue)rlich|hier\s+(?:ist|sind)|(?:die\s+)?(?:ü|ue)bersetzung"
    r"|bien\s+s(?:û|u)r|voici|(?:la\s+)?traduction|claro|aqu(?:í|i)|(?:la\s+)?traducci(?:ó|o)n)\b"
    r"[^:]{0,80}:",
    regex.IGNORECASE,
)
_COMMENT = regex.compile(
    r"(?:^|[\s(\[*])(?:(?:translator(?:'|’)?s?\s+)?note|anmerkung|hinweis|remarque|nota)\s*:"
    r"|\b(?:let\s+me\s+know\s+if|i\s+hope\s+this\s+helps|if\s+you\s+need\s+(?:any|more))\b",
    regex.IGNORECASE,
)
_QUOTES = {'"': '"', "“": "”", "„": "“", "«": "»", "'": "'", "‘": "’"}
_HARMFUL = "\N{REPLACEMENT CHARACTER}\N{LEFT-TO-RIGHT OVERRIDE}\N{RIGHT-TO-LEFT OVERRIDE}"
_MAX_GROWTH, _MAX_ADDED = 12, 200
"""Maximum characters of a translation: per source character, and in addition."""


class BadAnswerError(Exception):
    """An invalid answer; the message says why."""


def read_answer(content: str, finish_reason: str, num_lines: int) -> list[str]:
    """Returns the lines of an answer, exactly `num_lines`.

    Raises:
        BadAnswerError: The answer was cut or filtered, or has other lines.
    """
    if finish_reason == "length":
        raise BadAnswerError("it was cut (limits.answer_tokens)")
    if finish_reason == "content_filter":
        raise BadAnswerError("the server's filter withheld it")
    lines = [line for line in _THOUGHTS.sub("", content).split("\n") if line.strip()]
    if not lines:
        raise BadAnswerError("it is empty")
    if num_lines == 1:
        if len(lines) > 1:
            raise BadAnswerError(f"{len(lines):,} lines, expected one")
        return [lines[0].strip()]
    matches = [_NUMBERED.fullmatch(line.strip()) for line in lines]
    numbers = [0 if match is None else int(match[1]) for match in matches]
    if numbers != list(range(1, num_lines + 1)):
        raise BadAnswerError(f"not the lines 1 to {num_lines:,}, each once and nothing else")
    return [match[2] for match in matches if match is not None]


def clean_line(source: str, line: str) -> str:
    """Returns a translation without quotes around it that its source doesn't have."""
    closing = _QUOTES.get(line[:1])
    if closing is None or len(line) < 3 or line[-1] != closing or source[:1] in _QUOTES:
        return line
    return line if closing in line[1:-1] or line[0] in line[1:-1] else line[1:-1].strip()


def _is_harmful(character: str) -> bool:
    """Checks for control characters, halves of characters, breaks, and what turns text around."""
    if character in _HARMFUL:
        return True
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") and character != "\t"


def find_fault(source: str, line: str) -> str:
    """Returns why a line can't be a translation of its source; empty if it can."""
    if not line:
        return "it is empty"
    if any(_is_harmful(each) and each not in source for each in set(line)):
        return "it has control or invalid characters"
    if len(line) > len(source) * _MAX_GROWTH + _MAX_ADDED:
        return "it is much longer than the line"
    for pattern, fault in (
        (_REFUSAL, "it is a refusal"),
        (_INTRODUCTION, "it has an introduction"),
    ):
        if pattern.match(line) and not pattern.match(source):
            return fault
    if _COMMENT.search(line) and not _COMMENT.search(source):
        return "it has a comment"
    return "it has a code block" if "```" in line and "```" not in source else ""
