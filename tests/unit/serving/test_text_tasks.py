"""Tasks of text processes, asking a function instead of the server."""

from typing import Any

import pytest

from mtkit.inference.translation import Hypothesis, Translation
from mtkit.recipe.inference import Inference
from mtkit.serving.text_tasks import Route, Sentences, Task, TranslateDocuments, TranslateTexts

_ROUTE = Route("en", "de", Inference())
_NUM_LINES = 1_100
_TEXT = "\n".join(f"Line {number}" for number in range(_NUM_LINES))
_DOCUMENT = _TEXT.replace("\n", "\n\n").encode()


@pytest.mark.parametrize(
    "task",
    [
        TranslateTexts([_TEXT], _ROUTE, _NUM_LINES),
        TranslateDocuments([_DOCUMENT], "markdown", "de", _ROUTE, 1 << 20, None, _NUM_LINES),
    ],
    ids=["text", "document"],
)
def test_every_sentence_has_its_own_number_for_sampling(task: Task) -> None:
    """Equal sentences with one number would have equal samples."""
    numbers: list[int] = []

    def translate(question: Any) -> list[Translation]:
        assert isinstance(question, Sentences)
        numbers.extend(range(question.first_line, question.first_line + len(question.texts)))
        hypotheses = [
            Hypothesis((), 0.0, 0.0, is_finished=True, text=text) for text in question.texts
        ]
        return [Translation((hypothesis,)) for hypothesis in hypotheses]

    task.run(translate)
    assert numbers == list(range(1, _NUM_LINES + 1))
