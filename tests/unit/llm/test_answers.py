import pytest

from mtkit.llm.answers import BadAnswerError, clean_line, find_fault, read_answer


def test_one_line_is_the_answer_s_only_one() -> None:
    assert read_answer("  Der Mann schläft.\n", "stop", 1) == ["Der Mann schläft."]


def test_thoughts_before_an_answer_are_dropped() -> None:
    assert read_answer("<think>\nHm: a man.\n</think>\n\nDer Mann.", "stop", 1) == ["Der Mann."]


def test_numbered_lines_keep_their_own_numbers() -> None:
    answer = "1. Der Mann.\n2) 3. Oktober\n\n3: Ende."
    assert read_answer(answer, "stop", 3) == ["Der Mann.", "3. Oktober", "Ende."]


@pytest.mark.parametrize(
    ("answer", "reason", "num_lines"),
    [
        ("", "stop", 1),
        (" \n", "stop", 2),
        ("Der Mann.\nEr schläft.", "stop", 1),
        ("Der Ma", "length", 1),
        ("Der Mann.", "content_filter", 1),
        ("1. a", "stop", 2),
        ("1. a\n1. b", "stop", 2),
        ("1. a\n2. b\n3. c", "stop", 2),
        ("2. b\n1. a", "stop", 2),
        ("1. a b", "stop", 2),
        ("Sure:\n1. a\n2. b", "stop", 2),
        ("1. a\n2. b\nI hope this helps.", "stop", 2),
        ("1.\n2. b", "stop", 2),
        ("1. a\n99999999999999999999. b", "stop", 2),
    ],
)
def test_lost_doubled_merged_and_added_lines_are_bad(
    answer: str, reason: str, num_lines: int
) -> None:
    with pytest.raises(BadAnswerError):
        read_answer(answer, reason, num_lines)


@pytest.mark.parametrize(
    ("source", "line", "word"),
    [
        ("A man.", "", "empty"),
        ("A man.", "I'm sorry, but I can't translate that.", "refusal"),
        ("A man.", "Es tut mir leid, ich kann das nicht übersetzen.", "refusal"),
        ("A man.", "As an AI language model, I do not judge.", "refusal"),
        ("A man.", "Sure! Here is the translation: Ein Mann.", "introduction"),
        ("A man.", "Translation: Ein Mann.", "introduction"),
        ("A man.", "Hier ist die Übersetzung: Ein Mann.", "introduction"),
        ("A man.", "Ein Mann. (Note: singular)", "comment"),
        ("A man.", "Ein Mann. Let me know if you need more.", "comment"),
        ("A man.", "Ein \x1b[31mMann\x1b[0m.", "control"),
        ("A man.", "Ein \ud83d Mann.", "invalid"),
        ("A man.", "Ein \u202eMann.", "control"),
        ("A man.", "Ein\u2028Mann.", "control"),
        ("A man.", "Ein Mann. " * 90, "longer"),
        ("A man.", "```Ein Mann.```", "code"),
    ],
)
def test_what_is_no_translation_is_named(source: str, line: str, word: str) -> None:
    assert word in find_fault(source, line)


def test_what_could_not_be_decoded_is_bad() -> None:
    assert "invalid" in find_fault("A man.", "Ein \N{REPLACEMENT CHARACTER} Mann.")


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("I'm sorry, I can't help.", "Es tut mir leid, ich kann nicht helfen."),
        ("Here is the list: a, b", "Hier ist die Liste: a, b"),
        ("Note: it is late.", "Hinweis: Es ist spät."),
        ("Sure, he said: go!", "Natürlich, sagte er: Geh!"),
        ("Run ```ls```.", "Starte ```ls```."),
        ("The time: 5:30", "Die Zeit: 5:30"),
        ("Unfortunately it rains.", "Leider regnet es."),
        ("A \ufffd man.\u2028", "Ein \ufffd Mann.\u2028"),
    ],
)
def test_translations_of_such_text_are_good(source: str, line: str) -> None:
    assert not find_fault(source, line)


def test_quotes_around_a_line_go_only_if_they_are_added() -> None:
    assert clean_line("A man.", '"Ein Mann."') == "Ein Mann."
    assert clean_line("A man.", "„Ein Mann.“") == "Ein Mann."
    assert clean_line('"A man."', '"Ein Mann."') == '"Ein Mann."'
    assert clean_line("A and B", '"A" und "B"') == '"A" und "B"'
    assert clean_line("It", '"') == '"'
