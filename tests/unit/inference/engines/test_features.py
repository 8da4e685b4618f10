"""What each engine declares, compared with what it does, feature by feature."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from mtkit.errors import MtkitError
from mtkit.inference.engines.ctranslate2_engine import open_ctranslate2_engine
from mtkit.inference.engines.engine import AligningEngine, AttendingEngine, EncodedSource, Engine
from mtkit.inference.engines.features import FEATURES, Feature, check_features, list_uses
from mtkit.inference.engines.open_torch_engine import open_torch_engine
from mtkit.inference.export import export
from mtkit.inference.translation import Hypothesis
from mtkit.inference.translator import Translator
from mtkit.recipe.inference import (
    Fusion,
    GlossarySection,
    Inference,
    LengthPenalty,
    Sampling,
)
from mtkit.recipe.protection import Protect

from ..test_continuation import save_language_model

BEAM = Inference(
    beam_size=3, length_penalty=LengthPenalty(kind="power"), max_extra_tokens=5, processes=1
)
TEXT = "the quick brown fox"
INDEPENDENT = {
    *("engine", "precision", "allow_int8", "batch_tokens", "processes"),
    *("beam_size", "length_penalty", "coverage_penalty", "stop_margin", "min_length"),
    *("no_repeat_ngram", "max_extra_tokens", "max_output_tokens", "max_source_tokens"),
    # Around the search: what is asked of it is a feature of its own.
    *("flags", "paragraphs", "protect_strings", "rerank", "quality"),
}
"""Keys that every engine follows, or that are another check's (pipeline/engine_choice.py)."""
BY_KEY: dict[str, Feature] = {
    "n_best": "n_best",
    "sampling": "sampling",
    "fusion": "fusion",
    "alignments": "alignments",
    "glossary": "required_phrases",
    "protect": "required_phrases",
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, make_folder, tokenizer) -> Path:
    """A folder with a model, its export, and a language model."""
    root = tmp_path_factory.mktemp("models")
    model = make_folder(root / "torch")
    export(model, root / "ctranslate2", lines=[TEXT, "pack my box"])
    save_language_model(root / "lm", tokenizer)
    return root


class Opened:
    """A model opened by an engine; what it is given goes to the engine without a check before."""

    def __init__(self, models: Path, name: str, tokenizer) -> None:
        self.models, self.name, self.folder = models, name, models / name
        self.source = EncodedSource(tokenizer.encode_source([TEXT])[0])
        self.target = tokenizer.encode_target(["lazy"])[0]

    def open(self, settings: Inference = BEAM, *, copies: int = 1) -> Engine:
        folders = [self.folder] * copies
        if self.name == "torch":
            return open_torch_engine(folders, settings, "cpu")
        return open_ctranslate2_engine(folders, "cpu")

    def search(self, settings: Inference = BEAM, **source: object) -> list[Hypothesis]:
        return self.open(settings).search([replace(self.source, **source)], settings)[0]


def gives_several(opened: Opened) -> bool:
    return len({each.token_ids for each in opened.search(_with(n_best=3))}) == 3


def begins_with_a_prefix(opened: Opened) -> bool:
    prefix = tuple(opened.target[:2])
    return opened.search(prefix=prefix)[0].token_ids[:2] == prefix


def scores_given_targets(opened: Opened) -> bool:
    (scores,) = opened.open().score([opened.source.tokens], [opened.target])
    return len(scores) == len(opened.target) and max(scores) < 0.0


def aligns(opened: Opened) -> bool:
    engine = opened.open()
    if not (isinstance(engine, AligningEngine) and engine.aligns):
        return False
    (found,) = engine.align([opened.source.tokens], [opened.target])
    return bool(found.sum() > 0.0)


def contains_phrases(opened: Opened) -> bool:
    wanted = tuple(opened.target[:-1])
    found = opened.search(required=(wanted,))[0].token_ids
    return any(found[start : start + len(wanted)] == wanted for start in range(len(found)))


def samples(opened: Opened) -> bool:
    drawn = [
        opened.search(_with(sampling=Sampling(temperature=9.0, seed=seed)))[0] for seed in (1, 2)
    ]
    return drawn[0].token_ids != drawn[1].token_ids


def fuses(opened: Opened) -> bool:
    settings = _with(fusion=Fusion(model=opened.models / "lm", weight=2.0))
    return opened.search(settings)[0].fused_log_probability is not None


def tells_attention(opened: Opened) -> bool:
    engine = opened.open()
    if not isinstance(engine, AttendingEngine):
        return False
    found = engine.attend(opened.source.tokens, [opened.target])
    return found is not None and found[0].shape == (len(opened.target), len(opened.source.tokens))


def averages_models(opened: Opened) -> bool:
    return bool(opened.open(copies=2).search([opened.source], BEAM)[0])


PROBES: dict[Feature, Callable[[Opened], bool]] = {
    "n_best": gives_several,
    "prefix": begins_with_a_prefix,
    "forced_scores": scores_given_targets,
    "alignments": aligns,
    "required_phrases": contains_phrases,
    "sampling": samples,
    "fusion": fuses,
    "attention": tells_attention,
    "ensemble": averages_models,
}


def _with(**changes: object) -> Inference:
    return Inference.model_validate({**dict(BEAM), **changes})


def _use(key: str) -> Inference:
    """Returns settings that use a key."""
    values = {
        "n_best": 2,
        "sampling": Sampling(),
        "fusion": Fusion(model=Path("lm")),
        "alignments": True,
        "glossary": GlossarySection(way="constraints"),
        "protect": Protect(),
    }
    return _with(**{key: values[key]})


@pytest.mark.parametrize("engine", FEATURES)
@pytest.mark.parametrize("feature", get_args(Feature))
def test_an_engine_does_what_it_declares_and_nothing_else(
    models: Path, tokenizer, engine, feature: Feature
) -> None:
    opened = Opened(models, engine, tokenizer)
    try:
        does = PROBES[feature](opened)
    except MtkitError:
        does = False
    assert does is (feature in FEATURES[engine])


def test_every_key_of_inference_is_assigned_to_a_feature_or_to_all_engines() -> None:
    assert set(Inference.model_fields) == {*BY_KEY, *INDEPENDENT}
    for key, feature in BY_KEY.items():
        used = {each.feature for each in list_uses(_use(key))}
        lacking = [name for name in FEATURES if feature not in FEATURES[name]]
        assert (feature in used) == bool(lacking), key


@pytest.mark.parametrize("engine", FEATURES)
@pytest.mark.parametrize("key", BY_KEY)
def test_an_engine_that_is_named_refuses_or_warns_of_what_it_lacks(engine, key: str) -> None:
    uses = list_uses(_use(key))
    if BY_KEY[key] in FEATURES[engine]:
        assert check_features(engine, uses) == []
    elif key == "protect":
        (warning,) = check_features(engine, uses)
        assert warning.startswith("inference.protect: CTranslate2 can't search")
    else:
        with pytest.raises(MtkitError, match=f"inference.{key}: CTranslate2"):
            check_features(engine, uses)


def test_a_folder_for_an_engine_without_constraints_warns_that_protection_is_weaker(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Translator(models / "ctranslate2", settings=_use("protect")).translate("box")
    assert "`constrained` of inference.protect.ways is skipped" in capsys.readouterr().err
    weaker = _with(protect=Protect(ways=("masked", "n_best")))
    Translator(models / "ctranslate2", settings=weaker).translate("box")
    Translator(models / "torch", settings=_use("protect")).translate("box")
    assert "inference.protect" not in capsys.readouterr().err


def test_a_glossary_is_refused_before_the_model_is_read(models: Path, tmp_path: Path) -> None:
    damaged = shutil.copytree(models / "ctranslate2", tmp_path / "damaged")
    (damaged / "ctranslate2" / "model.bin").write_bytes(b"")
    with pytest.raises(MtkitError, match=r"inference\.glossary: CTranslate2 can't search"):
        Translator(damaged, settings=_with(glossary=GlossarySection()))
