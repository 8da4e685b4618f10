"""Recipes as users write them: what loads, and what is said of what doesn't."""

from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.recipe import dump_recipe, load_recipe, shipped_recipes
from mtkit.recipe.corpora import FileCorpus, PhrasebookTrainingCorpus
from mtkit.recipe.evaluation import Evaluation
from mtkit.recipe.inference import Inference
from mtkit.recipe.override_section import override_section
from mtkit.recipe.training import InverseSquareRootSchedule

RECIPE = """\
name = "small"
[data]
source_language = "en"
target_language = "de"
[[data.train]]
source = "train.en"
target = "train.de"
[data.dev]
builtin = "phrasebook"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a recipe beside it, in `recipes/small.toml`."""
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "small.toml").write_text(RECIPE)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def fault_of(*overrides: str) -> str:
    with pytest.raises(MtkitError) as fault:
        load_recipe("../recipes/small.toml", overrides)
    return fault.value.message


@pytest.mark.parametrize("name", list(shipped_recipes()))
def test_every_shipped_recipe_loads_by_name_and_is_named_like_its_file(name: str) -> None:
    assert load_recipe(name).name == name


@pytest.mark.parametrize("name", list(shipped_recipes()))
def test_a_recipe_written_out_loads_as_itself(name: str, tmp_path: Path) -> None:
    recipe = load_recipe(name)
    path = tmp_path / "written.toml"
    path.write_text(dump_recipe(recipe), encoding="utf-8")
    assert load_recipe(path) == recipe


def test_corpus_paths_start_from_the_recipes_folder(project: Path) -> None:
    [corpus] = load_recipe("../recipes/small.toml").data.train
    assert isinstance(corpus, FileCorpus)
    assert corpus.source == project / "recipes" / "train.en"


def test_data_root_is_relative_to_the_recipes_folder(project: Path) -> None:
    path = project / "recipes" / "small.toml"
    path.write_text(RECIPE.replace("[data]\n", '[data]\ndata_root = "text"\n'))
    [corpus] = load_recipe(path).data.train
    assert isinstance(corpus, FileCorpus)
    assert corpus.target == project / "recipes" / "text" / "train.de"


def test_data_root_that_is_set_is_relative_to_the_working_directory(project: Path) -> None:
    [corpus] = load_recipe("../recipes/small.toml", ["data.data_root=text"]).data.train
    assert isinstance(corpus, FileCorpus)
    assert corpus.source == project / "here" / "text" / "train.en"


def test_data_root_of_a_shipped_recipe_is_relative_to_the_working_directory(project: Path) -> None:
    assert load_recipe("phrasebook-en-de").data.data_root == project / "here"


def test_the_model_to_start_from_is_relative_to_data_root_also_if_it_is_set(project: Path) -> None:
    path = project / "recipes" / "small.toml"
    path.write_text(RECIPE + '[training.start_from]\nmodel = "runs/x/model"\n')

    def model(*overrides: str) -> Path:
        start_from = load_recipe(path, overrides).training.start_from
        assert start_from is not None
        return start_from.model

    assert model() == project / "recipes" / "runs" / "x" / "model"
    assert model("data.data_root=text") == project / "here" / "text" / "runs" / "x" / "model"
    for override in (
        "training.start_from.model=y/model",
        "training.start_from={model='y/model', vocabulary='new'}",
        "training={start_from={model='y/model'}}",
    ):
        assert model(override) == project / "recipes" / "y" / "model"
        # As the paths of corpora.
        root = project / "here" / "text"
        assert model("data.data_root=text", override) == root / "y" / "model"
        corpus = "data.train.0.source=y.en"
        [found] = load_recipe(path, ["data.data_root=text", corpus]).data.train
        assert found.source == root / "y.en"
    assert model("training.start_from.model=/models/x") == Path("/models/x")
    assert load_recipe(path, ["~training.start_from"]).training.start_from is None
    assert "training.start_from.model: expected a string in quotes, found 3" in fault_of(
        "training.start_from.model=3"
    )


def test_a_metrics_folder_starts_from_data_root(project: Path) -> None:
    overrides = ['evaluation.metrics=["bleu", "runs/da"]', "training.validation.metric=runs/da"]
    recipe = load_recipe("../recipes/small.toml", overrides)
    folder = str(project / "recipes" / "runs" / "da")
    assert recipe.evaluation.metrics == ("bleu", folder)
    assert recipe.evaluation.text_metrics == ("bleu",)
    assert recipe.evaluation.learned_metrics == (folder,)
    validation = recipe.training.validation
    assert (validation.learned, validation.score_name) == (folder, "comet")
    again = override_section(Evaluation(), "evaluation", overrides[:1])
    assert again.metrics == ("bleu", "runs/da")


def test_a_metrics_folder_keeps_its_slash(project: Path) -> None:
    folders = ['evaluation.metrics=["bleu", "./bleu", "da/"]']
    found = override_section(Evaluation(), "evaluation", folders)
    assert found.learned_metrics == ("./bleu", "./da")
    (project / "recipes" / "m-kiwi").mkdir()
    fault = "evaluation.metrics.0: m-kiwi is a folder here, which needs a slash: ./m-kiwi"
    assert fault in fault_of('evaluation.metrics=["m-kiwi"]')
    for name in ("m" * 300, "~nobody"):
        assert "expected" in fault_of(f'evaluation.metrics=["{name}"]')


def test_an_absolute_corpus_path_stays(project: Path) -> None:
    recipe = load_recipe("../recipes/small.toml", ["data.train.0.source=/text/train.en"])
    assert isinstance(recipe.data.train[0], FileCorpus)
    assert recipe.data.train[0].source == Path("/text/train.en")


def test_the_projects_own_recipe_is_read_where_none_is_named(project: Path) -> None:
    (project / "here" / "mtkit.toml").write_text(RECIPE)
    assert load_recipe().name == "small"


def test_no_recipe_at_all_says_how_to_get_one(project: Path) -> None:
    with pytest.raises(MtkitError, match=r"no recipe given, and no mtkit\.toml in") as fault:
        load_recipe()
    assert "mtkit init own-corpus" in fault.value.hint


def test_an_unknown_recipe_is_told_from_the_shipped_ones(project: Path) -> None:
    with pytest.raises(MtkitError) as fault:
        load_recipe("phrasebok-en-de")
    assert fault.value.message == (
        "no recipe 'phrasebok-en-de': neither a file nor one that ships with mtkit "
        "(did you mean 'phrasebook-en-de'?)"
    )
    assert "multi30k-en-de-paper" in fault.value.hint


def test_bad_toml_is_told_by_file_and_line(project: Path) -> None:
    path = project / "recipes" / "bad.toml"
    path.write_text("name = small\n")
    with pytest.raises(MtkitError, match=r"bad\.toml: invalid TOML: .*line 1") as fault:
        load_recipe(path)
    assert "quotes" in fault.value.hint


@pytest.mark.parametrize("addition", ["[data]\n", "[data.dev]\n", "builtin = 'phrasebook'\n"])
def test_what_stands_twice_is_told(project: Path, addition: str) -> None:
    path = project / "recipes" / "twice.toml"
    path.write_text(RECIPE + addition)
    with pytest.raises(MtkitError, match=r"twice\.toml: invalid TOML: ") as fault:
        load_recipe(path)
    assert "is defined twice" in fault.value.hint


@pytest.mark.parametrize("key", ["data.target_language", "evaluation.language"])
def test_a_language_is_a_code_and_no_word(project: Path, key: str) -> None:
    expected = 'expected an ISO 639 code of two or three letters, such as "de" for German'
    assert f'{key}: {expected}, found "german"' in fault_of(f"{key}=german")
    assert f'data.language: {expected}, found "german"' in fault_of("data.language=german")
    for code in ("de", "deu", "zh-Hant", "pt_BR", "es-419", "de-1996"):
        load_recipe("../recipes/small.toml", [f"{key}={code}"])


def test_a_recipe_that_is_no_utf8_is_told_by_file_and_line(project: Path) -> None:
    path = project / "recipes" / "latin.toml"
    path.write_bytes('name = "x"\n# für\n'.encode("latin-1"))
    with pytest.raises(MtkitError, match=r"latin\.toml:2: byte 0xfc is invalid UTF-8"):
        load_recipe(path)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ('seed="5"', 'seed: expected an integer, found "5"'),
        ("seed=5.0", "seed: expected an integer, found 5.0"),
        ("seed=true", "seed: expected an integer, found true"),
        ("seed=-1", "seed: expected a value greater than or equal to 0, found -1"),
        ("name=5", "name: expected a string in quotes, found 5"),
        ("tokenizer.joint=1", "tokenizer.joint: expected true or false, found 1"),
        ("model.dropout=off", 'model.dropout: expected a number, found "off"'),
        ("model.dropout=1.0", "model.dropout: expected a value less than 1, found 1.0"),
        ("model.dropout=nan", "model.dropout: expected a finite number, found NaN"),
        ("model=3", "model: expected a section, found 3"),
        ("data.dev=5", "data.dev: expected a section, found 5"),
        ("data.train.0=x", 'data.train.0: expected a section, found "x"'),
        ("data.train.0=[1]", "data.train.0: expected a section, found a list"),
        ("data.train=[]", "data.train: expected 1 or more entries, found 0"),
        ("data.train=x", 'data.train: expected a list, found "x"'),
        ("data.train.0.source=3", "data.train.0.source: expected a string in quotes, found 3"),
        ("tokenizer.kind=bp",
         'tokenizer.kind: expected "bpe" or "unigram", found "bp" (did you mean \'bpe\'?)'),
        ("data.dev.builtin=prasebook",
         'data.dev.builtin: expected "phrasebook", found "prasebook" '
         "(did you mean 'phrasebook'?)"),
        ("data.dev.sentences=many", 'data.dev.sentences: expected an integer, found "many"'),
        ("training.schedule={}", "training.schedule.kind: this key is missing"),
        (
            "training={recompute=true, cuda_graphs=true}",
            "training.recompute draws dropout again, which training.cuda_graphs can't record: "
            "remove one of the two",
        ),
        ("training.schedule={kind='const'}",
         'training.schedule.kind: expected "paper" or "inverse-sqrt" or "cosine" or "linear" or '
         '"constant", found "const" (did you mean \'constant\'?)'),
        ("training.max_stps=3",
         "training.max_stps: unknown key 'max_stps' (did you mean 'max_steps'?)"),
        ('evaluation.metrics=["COMET"]',
         'evaluation.metrics.0: expected "bleu" or "chrf" or "chrf++" or "ter" or "parseval", '
         'found "COMET"; '
         "COMET is the path of a folder that `mtkit import` wrote"),
        ("modle.dropout=0.1", "modle: unknown key 'modle' (did you mean 'model'?)"),
        ("data.train.0.sorce=x",
         "data.train.0.sorce: unknown key 'sorce' (did you mean 'source'?)"),
        ("~data.dev", "data.dev: this key is missing"),
        (
            "~data.train.0.target",
            "data.train.0.target: this key is missing; if a translator is to write the target "
            "side, name it: translated_by",
        ),
    ],
)  # fmt: skip
def test_one_fault_is_one_line_in_the_recipes_words(
    project: Path, override: str, message: str
) -> None:
    assert fault_of(override) == f"--set {override}: {message}"


def test_a_fault_names_the_override_or_the_file_that_it_stands_in(project: Path) -> None:
    text = Path("../recipes/small.toml").read_text()
    Path("../recipes/faulty.toml").write_text(text + "\n[inference]\nbeam_size = 0\n")
    with pytest.raises(MtkitError) as caught:
        load_recipe("../recipes/faulty.toml", ["seed=x", "inference.nbest=2", "modle.dropout=0"])
    assert {tuple(line.strip().split(": ")[:2]) for line in caught.value.message.splitlines()} == {
        ("--set seed=x", "seed"),
        ("--set inference.nbest=2", "inference.nbest"),
        ("--set modle.dropout=0", "modle"),
        ("../recipes/faulty.toml", "inference.beam_size"),
    }


def test_a_corpus_of_no_kind_is_told_the_three_kinds(project: Path) -> None:
    message = fault_of("data.train.0={}")
    assert message.startswith("--set data.train.0={}: data.train.0: no corpus given")
    assert all(key in message for key in ("`source`", "`target`", "`dataset`", "`builtin ="))
    assert "\n" not in message


def test_all_faults_are_told_at_once(project: Path) -> None:
    lines = fault_of("seed=x", "model.d_model=x", "training.max_stps=1").splitlines()
    assert [line.strip() for line in lines] == [
        '--set seed=x: seed: expected an integer, found "x"',
        '--set model.d_model=x: model.d_model: expected an integer, found "x"',
        "--set training.max_stps=1: training.max_stps: unknown key 'max_stps' "
        "(did you mean 'max_steps'?)",
    ]


def test_sections_that_disagree_are_told(project: Path) -> None:
    assert 'model.tied_embeddings = "three-way" needs one vocabulary' in fault_of(
        "tokenizer.joint=false"
    )
    assert "model: d_model = 100 is not a multiple of num_heads = 8" in fault_of(
        "model.d_model=100"
    )


def test_a_head_without_width_is_told_by_its_key(project: Path) -> None:
    assert "model: d_key must be 1 or more, found 0" in fault_of("model.d_key=0")


def test_an_unknown_key_is_told_which_there_are(project: Path) -> None:
    with pytest.raises(MtkitError) as caught:
        load_recipe("../recipes/small.toml", ["training.validation.beam=3"])
    assert caught.value.hint == "training.validation has these keys: beam_size, metric, num_samples"


def test_a_byte_order_mark_in_front_is_no_fault(project: Path) -> None:
    path = Path("../recipes/small.toml")
    path.write_text(RECIPE, "utf-8-sig")
    assert load_recipe(path).data.source_language == "en"


def test_a_data_sets_folder_starts_from_data_root(project: Path) -> None:
    (project / "recipes" / "set").mkdir()
    for name, found in (("set", str(project / "recipes" / "set")), ("wmt/wmt14", "wmt/wmt14")):
        corpus = f"data.train.0={{dataset='{name}', split='train'}}"
        assert load_recipe("../recipes/small.toml", [corpus]).data.train[0].dataset == found


def test_a_key_of_another_kind_is_no_unknown_one(project: Path) -> None:
    message = fault_of("training.schedule={kind='cosine', peak=1e-3, factor=2.0}")
    assert message.endswith(
        "training.schedule.factor: 'factor' can't be combined with the keys next to it, which are "
        "of another kind"
    )


def test_the_last_override_of_a_key_is_the_one_at_fault(project: Path) -> None:
    assert fault_of("seed=1", "seed=x").startswith("--set seed=x: seed:")
    assert fault_of("model={}", "model.d_ff=x").startswith("--set model.d_ff=x: model.d_ff:")


def test_numbers_are_read_as_toml_reads_them(project: Path) -> None:
    # In YAML 1.1, 1e-4 is a string and no is false.
    recipe = load_recipe(
        "../recipes/small.toml",
        ["training.optimizer.epsilon=1e-4", "data.source_language=no", "model.dropout=0"],
    )
    assert recipe.training.optimizer.epsilon == 0.0001
    assert recipe.data.source_language == "no"
    assert recipe.model.dropout == 0.0


def test_overrides_reach_into_lists_and_tables(project: Path) -> None:
    recipe = load_recipe(
        "../recipes/small.toml",
        [
            'data.train.0={builtin="phrasebook"}',
            "data.train.0.sentences=7",
            'training.schedule={kind="inverse-sqrt", peak=1e-3}',
            "training.clipping.max_norm=1.0",
        ],
    )
    assert recipe.data.train == (PhrasebookTrainingCorpus(builtin="phrasebook", sentences=7),)
    assert recipe.training.schedule == InverseSquareRootSchedule(kind="inverse-sqrt", peak=0.001)
    assert recipe.training.clipping is not None


def test_a_tilde_turns_a_section_off(project: Path) -> None:
    overrides = ["training.clipping.max_norm=1.0", "~training.clipping"]
    assert load_recipe("../recipes/small.toml", overrides).training.clipping is None


def test_a_section_overridden_alone_keeps_its_other_values() -> None:
    settings = override_section(Inference(beam_size=7), "inference", ["inference.batch_tokens=9"])
    assert (settings.beam_size, settings.batch_tokens) == (7, 9)


def test_a_section_overridden_alone_refuses_other_sections_and_faults() -> None:
    with pytest.raises(MtkitError, match="only evaluation can be changed"):
        override_section(Evaluation(), "evaluation", ["training.max_steps=3"])
    with pytest.raises(MtkitError) as caught:
        override_section(Evaluation(), "evaluation", ["evaluation.tokenise=none"])
    assert caught.value.message == (
        "--set evaluation.tokenise=none: evaluation.tokenise: unknown key 'tokenise' "
        "(did you mean 'tokenize'?)"
    )
    assert caught.value.hint.startswith("evaluation has these keys: glossary, language, ")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("[evaluation]\nmetrics = " + "[" * 100_000, "nested too deeply"),
        ("[evaluation]\nmetrics = " + "[" * 300 + "]" * 300, "recursion limit"),
        ("[inference]\nn_best = " + "9" * 5_000, "a number with too many digits"),
        ("[inference]\nn_best = 0x" + "f" * 50_000, "a number with too many digits"),
        ("a." * 5_000 + "b = 1", "nested too deeply"),
        ("#" * 2_000_000, " bytes, expected 1,048,576 at most"),
        ("[inference]\nn_best = " + "9" * 4_000, "found 999"),
        ("[inference]\nbeam_size = 1_001", "inference.beam_size: expected a value less than"),
        ("[inference]\nmax_extra_tokens = 10_001", "inference.max_extra_tokens: expected a value"),
        ("[model]\nnum_encoder_layers = 1_000_000", "model.num_encoder_layers: expected a value"),
        ("[model]\nd_ff = 1_000_000_000_000_000", "model.d_ff: expected a value less than"),
        ("[training]\nmax_steps = 1_000_000_001", "expected a number up to 1,000,000,000"),
        ("[training]\nstuck_after_seconds = 1e300", "expected a number up to 1,000,000,000"),
        ("[training.clipping]\nmax_norm = 1e300", "expected a number up to 1,000,000,000"),
        ("[data.cleaning]\nmax_tokens = 1_000_000_001", "expected a number up to 1,000,000,000"),
    ],
)
def test_what_no_recipe_says_is_told_in_a_line(project: Path, lines: str, said: str) -> None:
    path = project / "recipes" / "small.toml"
    path.write_text(RECIPE + lines + "\n")
    with pytest.raises(MtkitError) as caught:
        load_recipe(path)
    assert said in caught.value.message
    assert len(caught.value.message) < 1_000


def test_a_number_of_too_many_digits_that_is_typed_is_no_number(project: Path) -> None:
    digits = "9" * 5_000
    assert "inference.n_best: expected an integer" in fault_of(f"inference.n_best={digits}")
