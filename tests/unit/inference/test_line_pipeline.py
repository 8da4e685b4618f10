import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from hypothesis import given
from hypothesis import strategies as st

from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.line import TextModel
from mtkit.inference.line_pipeline import LinePipeline
from mtkit.inference.request import Request
from mtkit.inference.translator import Translator
from mtkit.recipe.inference import Inference, Sampling
from mtkit.text.languages import TranslatorLanguages

from .fakes import BracketEngine, CharacterTokenizer, bracket


def translate(requests, *, rerank=None, **settings):
    engine = BracketEngine()
    chosen = Inference(**{"batch_tokens": 64, **settings})
    options = {} if rerank is None else {"rerank": rerank}
    model = TextModel(CharacterTokenizer(), TranslatorLanguages.of(None, "", ""))
    translator = LinePipeline(engine, model, chosen, **options)
    return translator.search_ahead(requests)(), engine


_TEXTS = st.text(st.sampled_from("ab .!?,\0\u3000。é\u0301"), min_size=1, max_size=60)


@given(_TEXTS, st.booleans())
def test_parts_and_what_lies_between_them_give_the_line(text, has_tag):
    line = "<tag>" * has_tag + text
    _, engine = translate([Request(line + "\n", settings=Inference(max_source_tokens=12))])
    parts = [source for batch in engine.batches for source in batch]
    parts.sort(key=lambda source: source.draw)
    rebuilt, position = "", 0
    for number, source in enumerate(parts):
        start, end = source.span
        # What the engine gets is that slice of the line behind the tag, without what the tokenizer
        # drops.
        words = "".join(chr(token - 4) for token in source.tokens[has_tag * 5 : -1])
        assert words == line[start:end].replace("\0", "")
        between = line[position:start]
        assert not (between.removeprefix("<tag>") if number == 0 else between).strip(" \u3000\0")
        rebuilt += between + line[start:end]
        position = end
    assert rebuilt + line[position:] == line


def test_hypotheses_are_reranked_before_parts_are_joined():
    seen = []

    def turn_round(parts):
        for source, hypotheses, _ in parts:
            seen.append((source.span, [hypothesis.text for hypothesis in hypotheses]))
        return [hypotheses[::-1] for _, hypotheses, _ in parts]

    line = "A b c. D e f."
    (found,), _ = translate([Request(line)], rerank=turn_round, max_source_tokens=8, n_best=2)
    assert [line[slice(*span)] for span, _ in seen] == ["A b c.", "D e f."]
    assert seen[0][1] == ["[A b c.]", "{A b c.}"]
    assert [candidate.text for candidate in found.candidates] == [
        "{A b c.} {D e f.}",
        "[A b c.] [D e f.]",
    ]


def test_requests_with_equal_settings_share_batches():
    two = Inference(n_best=2, batch_tokens=1, engine="torch")
    requests = [
        Request("a", settings=two),
        Request("b"),
        Request("c", settings=two.model_copy()),
        Request("d", settings=Inference(max_source_tokens=8)),
        Request("e"),
    ]
    found, engine = translate(requests)
    assert [each.text for each in found] == ["[a]", "[b]", "[c]", "[d]", "[e]"]
    assert [len(each.candidates) for each in found] == [2, 1, 2, 1, 1]
    # How much is searched together stays the translator's: 64 tokens.
    assert [len(batch) for batch in engine.batches] == [2, 2, 1]


def test_a_line_is_cut_as_its_request_says():
    line = "A b c. D e f."
    (whole, cut), _ = translate(
        [Request(line), Request(line, settings=Inference(max_source_tokens=8))]
    )
    assert (whole.text, cut.text) == ("[A b c. D e f.]", "[A b c.] [D e f.]")
    assert (whole.was_split, cut.was_split) == (False, True)


def test_warnings_are_data(capsys):
    line = "A b c. D e f."
    translator, _ = bracket(max_source_tokens=8)
    (short, long) = translator.search(["a", Request(line, line=70)], warns=False)
    assert short.warnings == ()
    (warning,) = long.warnings
    assert (warning.kind, warning.line) == ("too long for the model", 70)
    assert warning.text == (
        "input line 70: 14 tokens, more than 8 (inference.max_source_tokens): translated in 2 parts"
    )
    assert capsys.readouterr().err == ""
    translator.search([Request(line, line=70)])
    assert capsys.readouterr().err == f"warning: {warning.text}\n"


def test_callers_who_share_a_batch_get_what_they_get_alone(make_recipe, make_model, tokenizer):
    torch.manual_seed(3)
    engine = TorchEngine(make_model(make_recipe()), "cpu")
    translator = Translator.of(engine, tokenizer, Inference(beam_size=2, max_extra_tokens=5))
    drawn = Inference(sampling=Sampling(seed=5), n_best=2, max_extra_tokens=5)
    wide = Inference(beam_size=3, n_best=3, max_extra_tokens=4)
    callers = [
        [Request("the quick brown fox", settings=drawn, line=1), Request("pack my box", line=2)],
        [Request("pack my box", settings=drawn, line=1), Request("the fox", settings=wide, line=2)],
    ]
    together = translator.search([request for caller in callers for request in caller])
    alone = [found for caller in callers for found in translator.search(caller)]
    for one, other in zip(together, alone, strict=True):
        assert [candidate.text for candidate in one.candidates] == [
            candidate.text for candidate in other.candidates
        ]
    assert [len(found.candidates) for found in together] == [2, 1, 2, 3]


def test_a_translator_makes_no_caller_wait_for_another():
    translator, engine = bracket(batch_tokens=8)
    search = engine.search
    # Passed only where two callers' batches are searched at the same time.
    meeting = threading.Barrier(2, timeout=30)

    def meet(sources, settings):
        meeting.wait()
        return search(sources, settings)

    engine.search = meet
    callers = [[f"{caller}{number}" for number in range(5)] for caller in "ab"]
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(translator.translate, callers))
    assert found == [[f"[{line}]" for line in lines] for lines in callers]
