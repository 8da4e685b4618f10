"""`inference.rerank` in the pipeline, with sacreBLEU's scores of the candidates as the oracle."""

import json
from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF

from mtkit.errors import MtkitError
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.line import RankedPart
from mtkit.inference.line_pipeline import copy_line
from mtkit.inference.paragraphs import join_parts
from mtkit.inference.request import LineError, Request
from mtkit.inference.rerank import ModelScorer, Ranker
from mtkit.inference.translation import Hypothesis
from mtkit.inference.translator import Translator
from mtkit.llm.open_llm import open_llm
from mtkit.model.folder import load_model_folder, save_model_folder
from mtkit.model.weights import pack_weights
from mtkit.pipeline.translate import open_remote
from mtkit.recipe.inference import GlossarySection, Inference, Rerank, Sampling
from mtkit.recipe.paragraphs import Paragraphs
from mtkit.recipe.protection import Protect
from mtkit.text.glossary import Term
from mtkit.text.token_ids import EOS

from .fakes import BracketEngine, CharacterTokenizer
from .test_continuation import save_language_model

LINES = ["the quick brown fox jumps", "pack my box", "how quickly daft jumping zebras vex"]
DOGS = ["zwei Hunde bellen", "zwei Hunde bellen laut", "zwei Hunde", "eine Katze", "zwei Hunde"]


class _Engine(BracketEngine):
    """Writes what a table says for a text, each output half as probable as the one before."""

    def __init__(self, table):
        super().__init__()
        self._table, self.asked = table, []

    def search(self, sources, settings):
        self.asked += [settings.n_best] * len(sources)
        self.batches.append(list(sources))
        return [self._answer(source)[: settings.n_best] for source in sources]

    def _answer(self, source):
        text = "".join(chr(token - 4) for token in source.tokens[:-1])
        needed = [token for phrase in source.required for token in (36, *phrase)]
        return [
            Hypothesis((*(ord(each) + 4 for each in output), *needed, EOS), -rank, -rank, True)
            for rank, output in enumerate(self._table.get(text, [text]))
        ]


def open_fake(table=None, **settings):
    engine = _Engine({"dogs": DOGS} if table is None else table)
    chosen = Inference(**{"beam_size": 5, "rerank": Rerank(), **settings})
    return Translator.of(engine, CharacterTokenizer(), chosen, target_language="de"), engine


def rank_by_sacrebleu(texts, scorer):
    utilities = {
        text: sum(scorer.sentence_score(text, [other]).score for other in texts) / len(texts)
        for text in texts
    }
    return sorted(utilities.items(), key=lambda pair: -pair[1])


def list_pairs(translation):
    return [(each.text, pytest.approx(each.utility, abs=1e-9)) for each in translation.candidates]


@pytest.mark.parametrize("metric", ["chrf", "bleu"])
def test_translations_are_ordered_by_utility(metric):
    scorer = CHRF() if metric == "chrf" else BLEU(effective_order=True)
    translator, engine = open_fake(rerank=Rerank(metric=metric), n_best=3)
    (found,) = translator.search(["dogs"])
    assert rank_by_sacrebleu(DOGS, scorer)[:3] == list_pairs(found)
    assert engine.asked == [5]
    assert found.text != DOGS[0]


def test_a_sample_counts_as_often_as_it_was_drawn_and_is_returned_once():
    # Each is as like itself as the others are to themselves, and unlike the others.
    drawn = ["ab", "cd", "ef", "cd", "ef", "cd"]
    translator, _ = open_fake({"x": drawn}, sampling=Sampling(), n_best=6)
    (found,) = translator.search(["x"])
    assert list_pairs(found) == [("cd", 50.0), ("ef", 100 / 3), ("ab", 100 / 6)]


def test_of_equal_candidates_the_more_probable_comes_first():
    translator, _ = open_fake({"x": ["ab", "cd", "ef"]}, n_best=3)
    (found,) = translator.search(["x"])
    assert [each.text for each in found.candidates] == ["ab", "cd", "ef"]


@pytest.mark.parametrize(
    ("changes", "num_searched"),
    [
        ({"rerank": None, "n_best": 2}, 2),
        ({}, 5),
        ({"rerank": Rerank(candidates=3)}, 3),
        ({"sampling": Sampling()}, 32),
        ({"sampling": Sampling(), "rerank": Rerank(candidates=100)}, 100),
    ],
)
def test_how_many_candidates_are_searched_for(changes, num_searched):
    translator, engine = open_fake(**changes)
    translator.search(["dogs"])
    assert engine.asked == [num_searched]


def test_a_request_with_a_smaller_beam_has_fewer_candidates():
    translator, engine = open_fake(rerank=Rerank(candidates=4))
    smaller = translator.settings.model_copy(update={"beam_size": 2})
    translator.search([Request("dogs", settings=smaller)])
    assert engine.asked == [2]


def test_each_line_is_ranked_by_its_own_settings():
    translator, engine = open_fake(n_best=2)
    plain = Inference(beam_size=5, n_best=5)
    first, second, third = translator.search(["dogs", Request("dogs", settings=plain), "dogs"])
    assert first == third
    assert [each.text for each in second.candidates] == DOGS
    assert [each.utility for each in second.candidates] == [None] * 5
    # The search is the same, so they share a batch.
    assert [len(batch) for batch in engine.batches] == [3]


def test_a_pruned_list_has_exact_utilities():
    rerank = Rerank(aggregate=True, prune=2)
    translator, _ = open_fake(rerank=rerank, n_best=2)
    (found,) = translator.search(["dogs"])
    wanted = dict(rank_by_sacrebleu(DOGS, CHRF()))
    assert list_pairs(found) == [(each.text, wanted[each.text]) for each in found.candidates]
    assert len(found.candidates) == 2


def test_a_line_of_several_sentences_has_the_mean_of_their_utilities():
    table = {"Ab cd ef.": ["one", "one", "two"], "Gh ij kl.": ["four"]}
    translator, _ = open_fake(table, paragraphs=Paragraphs())
    (found,) = translator.search(["Ab cd ef. Gh ij kl."])
    (one, _) = rank_by_sacrebleu(["one", "one", "two"], CHRF())
    assert found.text == "one four"
    assert found.candidates[0].utility == pytest.approx((one[1] + 100.0) / 2)
    # A copied sentence has none.
    (joined,) = join_parts([found.candidates, copy_line("...").candidates], "de")
    assert joined.utility == found.candidates[0].utility


def test_protected_pieces_are_still_checked():
    table = {"2 dogs": ["zwei Hunde", "zwei Hunden", "2 Hunde"]}
    (plain,) = open_fake(table)[0].search(["2 dogs"])
    assert plain.text == "zwei Hunden"
    (found,) = open_fake(table, protect=Protect(ways=("n_best",)))[0].search(["2 dogs"])
    assert (found.text, found.protection.way) == ("2 Hunde", "n_best")


def test_terms_are_still_required():
    glossary = (Term("dogs", "Köter"),)
    request = Request("dogs", glossary=glossary)
    translator, engine = open_fake(glossary=GlossarySection(way="constraints"))
    (found,) = translator.search([request])
    assert [use.use for use in found.terms] == ["used"]
    best = rank_by_sacrebleu([f"{each} Köter" for each in DOGS], CHRF())
    assert list_pairs(found) == best[:1]
    assert engine.asked == [5, 5]


SAMPLED = Inference(sampling=Sampling(seed=7), n_best=12, max_extra_tokens=4)


@pytest.mark.parametrize("engine", ["torch", "native"])
def test_samples_of_a_model_are_ranked_alike_in_any_batch(engine, folder, tokenizer):
    reranked = SAMPLED.model_copy(update={"n_best": 3, "rerank": Rerank(candidates=12)})
    if engine == "torch":
        network = load_model_folder(folder).model
        translator = Translator.of(TorchEngine(network, "cpu"), tokenizer, reranked)
    else:
        translator = Translator(folder, device="cpu", settings=reranked)
    together = translator.search(LINES)
    plain = translator.search([Request(line, settings=SAMPLED) for line in LINES])
    for number, (line, found, drawn) in enumerate(zip(LINES, together, plain, strict=True), 1):
        texts = [each.text for each in drawn.candidates]
        assert len(texts) == 12
        assert list_pairs(found) == rank_by_sacrebleu(texts, CHRF())[: len(found.candidates)]
        (alone,) = translator.search([line], first_line=number)
        assert [(each.text, each.utility) for each in alone.candidates] == [
            (each.text, each.utility) for each in found.candidates
        ]


def test_an_ensemble_reranks_its_beam(folder):
    settings = Inference(beam_size=6, n_best=6, max_extra_tokens=4)
    plain = Translator([folder, folder], device="cpu", settings=settings)
    reranked = settings.model_copy(update={"rerank": Rerank()})
    other = Translator([folder, folder], device="cpu", settings=reranked)
    for beam, found in zip(plain.search(LINES), other.search(LINES), strict=True):
        texts = [each.text for each in beam.candidates]
        assert sorted(list_pairs(found)) == sorted(rank_by_sacrebleu(texts, CHRF()))


def test_a_language_models_texts_are_ranked(tokenizer, tmp_path):
    folder = save_language_model(tmp_path / "lm", tokenizer, sampling=Sampling(), rerank=Rerank())
    drawn = Inference(sampling=Sampling(), n_best=32, max_extra_tokens=6)
    translator = Translator(folder, device="cpu")
    found, plain = translator.search([LINES[1], Request(LINES[1], settings=drawn, line=1)])
    assert list_pairs(found) == rank_by_sacrebleu([e.text for e in plain.candidates], CHRF())[:1]


def test_json_has_the_utility_of_each_candidate():
    translator, _ = open_fake(n_best=2)
    (found,) = translator.search(["dogs"])
    content = json.loads(json.dumps(found.as_json("dogs")))
    assert [each["utility"] for each in content["n_best"]] == [
        each.utility for each in found.candidates
    ]
    assert content["utility"] == content["n_best"][0]["utility"]
    (plain,) = open_fake(rerank=None)[0].search(["dogs"])
    assert "utility" not in plain.as_json("dogs")


def test_a_parser_refuses_it(tokenizer):
    settings = Inference(rerank=Rerank())
    with pytest.raises(MtkitError, match="this model writes trees") as caught:
        Translator.of(BracketEngine(), tokenizer, settings, linearization="vinyals")
    assert caught.value.hint == "remove it: --set ~inference.rerank"


def test_servers_and_large_language_models_have_no_such_setting(tmp_path):
    with pytest.raises(MtkitError, match="a server has settings of its own"):
        open_remote("http://127.0.0.1:1", ["inference.rerank={}"])
    path = tmp_path / "llm.toml"
    path.write_text(
        'url = "http://127.0.0.1:1"\nmodel = "m"\nsource_languages = ["en"]\n'
        'target_languages = ["de"]\n'
    )
    with pytest.raises(MtkitError, match="a large language model has no such setting"):
        open_llm(path, ["inference.rerank={}"])


@pytest.fixture(scope="module")
def three_folders(tmp_path_factory, make_recipe, make_model, tokenizer):
    """Models of random weights: en-de, another en-de, and de-en."""
    root = tmp_path_factory.mktemp("rerank")
    recipe = make_recipe()
    data = recipe.data.model_copy(update={"source_language": "de", "target_language": "en"})
    recipes = recipe, recipe, recipe.model_copy(update={"data": data})
    for seed, (name, each) in enumerate(zip(("own", "other", "back"), recipes, strict=True)):
        save_model_folder(
            root / name,
            recipe=each,
            weights=pack_weights(make_model(each, seed)),
            tokenizer=tokenizer,
            origin="random",
        )
    return root


def test_other_models_scores_are_added_by_their_weights(three_folders):
    other, back = three_folders / "other", three_folders / "back"
    models = ({"path": other, "weight": 2.0}, {"path": back, "weight": -3.0})
    rerank = Rerank(utility_weight=0.5, translator_weight=1.5, models=models)
    settings = Inference(beam_size=6, n_best=6, rerank=rerank, max_extra_tokens=4)
    (found,) = Translator(three_folders / "own", settings=settings, device="cpu").search(LINES[:1])
    texts = [each.text for each in found.candidates]
    assert len(texts) > 2
    scored = [
        [each.candidates[0] for each in Translator(path, device="cpu").score(pairs)]
        for path, pairs in (
            (other, [(LINES[0], text) for text in texts]),
            (back, [(text, LINES[0]) for text in texts]),
        )
    ]
    totals = []
    for candidate, forward, reverse in zip(found.candidates, *scored, strict=True):
        means = [each.log_probability / len(each.token_ids) for each in (forward, reverse)]
        assert candidate.model_scores == pytest.approx(means, abs=1e-5)
        own = candidate.log_probability / len(candidate.token_ids)
        total = 0.5 * candidate.utility + 1.5 * own + 2.0 * means[0] - 3.0 * means[1]
        totals.append(total)
    assert totals == sorted(totals, reverse=True)
    shown = found.as_json(LINES[0])["n_best"][0]
    assert shown["model_scores"] == list(found.candidates[0].model_scores)


def test_without_weight_no_utility_is_computed(three_folders):
    rerank = Rerank(utility_weight=0.0, models=({"path": three_folders / "back"},))
    settings = Inference(beam_size=4, rerank=rerank)
    (found,) = Translator(three_folders / "own", settings=settings).search(LINES[:1])
    assert found.candidates[0].utility is None
    assert len(found.candidates[0].model_scores) == 1


def test_a_candidate_that_a_model_cant_score_comes_last():
    class _Lines:
        def score(self, requests, *, first_line):
            for index, each in enumerate(requests):
                if len(each.text) > 3:
                    raise LineError(first_line + index, "too long")
            return [copy_line(each.text) for each in requests]

    scorer = ModelScorer(_Lines().score, is_reverse=True)
    assert scorer.score([("x", "ab"), ("x", ""), ("x", "long text")]) == [0.0, -100.0, -100.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"utility_weight": 0.0}, "all weights are 0"),
        ({"aggregate": True, "prune": 3, "translator_weight": 1.0}, "prune drops candidates"),
    ],
)
def test_weights_that_mean_nothing(changes, message):
    with pytest.raises(ValueError, match=message):
        Rerank(**changes)


def test_a_model_of_other_languages_is_refused(three_folders, tmp_path, make_recipe, make_model):
    own = Translator(three_folders / "own")
    rerank = Rerank(models=({"path": three_folders / "back"},))
    request = Request("a", settings=own.settings.model_copy(update={"rerank": rerank}))
    with pytest.raises(MtkitError, match="a request names a folder that the translator hasn't"):
        own.search([request])
    config = json.loads((three_folders / "back/config.json").read_text())
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    for file in (three_folders / "back").iterdir():
        (stranger / file.name).write_bytes(file.read_bytes())
    (stranger / "config.json").write_text(json.dumps(config | {"source_language": "fr"}))
    rerank = Rerank(models=({"path": stranger},))
    with pytest.raises(MtkitError, match="isn't a translator of en-de or de-en"):
        Translator(three_folders / "own", settings=Inference(rerank=rerank))


def test_a_model_folder_holds_no_paths(tmp_path, make_recipe, make_model, tokenizer):
    recipe = make_recipe()
    rerank = Rerank(models=({"path": tmp_path / "other"},))
    inference = recipe.inference.model_copy(update={"rerank": rerank})
    save_model_folder(
        tmp_path / "model",
        recipe=recipe.model_copy(update={"inference": inference}),
        weights=pack_weights(make_model(recipe)),
        tokenizer=tokenizer,
        origin="random",
    )
    assert "other" not in (tmp_path / "model/inference.json").read_text()


class Table:
    """A learned metric whose scores are in a table."""

    def __init__(self, scores, *, needs_reference=True):
        self.scores, self.needs_reference = scores, needs_reference
        self.rows = []

    def score(self, rows):
        self.rows += rows
        return np.array([self.scores[row[1:]] for row in rows])


def list_candidates(*texts):
    return [Hypothesis((), -float(n), 0.0, is_finished=True, text=t) for n, t in enumerate(texts)]


def test_a_learned_metric_compares_all_pairs():
    scores = {("a", "a"): 1.0, ("a", "b"): 0.0, ("b", "a"): 0.5, ("b", "b"): 1.0}
    metric = Table(scores)
    candidates, settings = list_candidates("a", "b", "b"), Rerank(metric="./m")
    found = Ranker("./m", metric).rank(candidates, settings, 2, source="x")
    # By hand: b has (0.5 + 2 * 1.0) / 3, a has (1.0 + 2 * 0.0) / 3.
    assert [(each.text, each.utility) for each in found] == [
        ("b", pytest.approx(250 / 3)),
        ("a", pytest.approx(100 / 3)),
    ]
    assert len(metric.rows) == 4
    assert {row[0] for row in metric.rows} == {"x"}


def test_a_metric_without_references_orders_by_its_score():
    metric = Table({("a", ""): 0.2, ("b", ""): 0.7}, needs_reference=False)
    found = Ranker("./m", metric).rank(list_candidates("a", "b", "a"), Rerank(metric="./m"), 1)
    assert [(each.text, each.utility) for each in found] == [("b", pytest.approx(70.0))]


def test_a_learned_metric_reads_a_part_of_a_line():
    metric = Table({(text, other): 1.0 for text in DOGS for other in DOGS})
    translator, engine = open_fake()
    translator.search(["dogs"])
    settings = translator.settings.model_copy(update={"rerank": Rerank(metric="./m")})
    part = RankedPart(engine.batches[0][0], list_candidates(*DOGS), settings)
    Ranker("./m", metric)([part])
    assert {row[0] for row in metric.rows} == {"dogs"}


def test_a_ranker_knows_which_folders_it_has_opened():
    ranker = Ranker("x/m", Table({}), {Path("other"): None})
    assert ranker.opens(Rerank(metric="x/m", models=({"path": Path("other")},)))
    assert ranker.opens(Rerank())
    assert not ranker.opens(Rerank(metric="x/other"))
    assert not ranker.opens(Rerank(models=({"path": Path("m")},)))
