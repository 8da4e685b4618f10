"""Examples made of pairs: by hand, as often as the recipe says, the same in any process."""

import json
import re
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mtkit.data import phrasebook
from mtkit.data.augmentation.augment import (
    Augmenter,
    find_shared,
    list_copy_symbols,
    make_typos,
    put_symbols,
    strip_final_punctuation,
    write_title,
)
from mtkit.data.prepare import is_prepared, prepare
from mtkit.data.prepared import open_prepared
from mtkit.executor import LocalExecutor
from mtkit.recipe import load_recipe
from mtkit.recipe.augment import Augment, Casing, Joined, MissingPunctuation, Placeholders, Typos
from mtkit.text.tokenizer import SubwordTokenizer
from mtkit.workspace import Workspace

ALL = Augment(
    placeholders=Placeholders(rate=1.0),
    casing=Casing(upper=1.0, title=1.0, lower=1.0),
    typos=Typos(rate=1.0),
    missing_punctuation=MissingPunctuation(rate=1.0),
)


def make(settings, source, target, seed=1):
    return [*Augmenter(settings, seed).make_examples(source, target)]


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("Peter has 12 cats.", "Peter hat 12 Katzen.", ["Peter", "12"]),
        ("From 1,000.5 to 3", "Von 1,000.5 bis 3", ["1,000.5", "3"]),
        # One that stands twice on a side isn't told apart; neither is a single letter.
        ("a Bob and Bob", "a Bob", []),
        ("I saw J", "J sah I", []),
        ("see user@host.org", "siehe user@host.org", ["user@host.org"]),
        ("Tokyo 2020", "東京 2020", ["2020"]),
    ],
)
def test_shared_words(source, target, words):
    found = find_shared(source, target)
    assert [source[slice(*span)] for span, _ in found] == words
    assert [target[slice(*span)] for _, span in found] == words


@given(st.integers(0, 10_000))
def test_symbols_stand_for_the_same_words_on_both_sides(seed):
    # What stands behind each word tells it.
    behind = {"Peter": ":", "12": ";", "Anna": "!", "Rome": "?"}
    source, target = "Peter: 12; see Anna! Rome?", "Rome? Anna! sieh 12; Peter:"
    symbols = ["<copy0>", "<copy1>", "<copy2>"]
    changed = put_symbols(source, target, find_shared(source, target), symbols, Random(seed))
    used = [symbol for symbol in symbols if symbol in changed[0]]
    assert 1 <= len(used) <= 3
    words = {sign: word for word, sign in behind.items()}
    for symbol in used:
        for side in (0, 1):
            assert changed[side].count(symbol) == 1
        signs = {side[side.index(symbol) + len(symbol)] for side in changed}
        assert len(signs) == 1
        word = words[signs.pop()]
        changed = tuple(side.replace(symbol, word) for side in changed)
    assert changed == (source, target)


@pytest.mark.parametrize(
    ("text", "title", "bare"),
    [
        ("The man's 2 dogs sleep.", "The Man's 2 Dogs Sleep.", "The man's 2 dogs sleep"),
        ('He said "no!"', 'He Said "No!"', 'He said "no"'),
        ("das ist ein Haus", "Das Ist Ein Haus", None),
        ("他睡觉。", "他睡觉。", "他睡觉"),
        ("Wait...", "Wait...", "Wait"),
        ("...", "...", None),
    ],
)
def test_title_case_and_missing_punctuation(text, title, bare):
    assert write_title(text) == title
    assert strip_final_punctuation(text) == bare


@given(st.integers(0, 10_000))
def test_a_typing_error_changes_the_wanted_words_alone(seed):
    text = "The quick brown foxes jumped over lazy dogs 1234 of an old man"
    changed = make_typos(text, 0.25, Random(seed)) or text
    words = list(zip(text.split(), changed.split(), strict=True))
    different = [(old, new) for old, new in words if old != new]
    # Seven words have four letters or more; a quarter is two.
    assert len(different) <= 2
    for old, new in different:
        assert old[0] == new[0]
        assert abs(len(old) - len(new)) <= 1
        assert set(new) <= set(old.lower()) | {old[0]}


def test_a_text_of_short_words_has_no_typing_error():
    assert make_typos("a cat sat on it", 1.0, Random(1)) is None


def test_examples_of_a_pair_by_hand():
    made = make(ALL, "Rome is old.", "Rome ist alt.")
    assert [kind for kind, _, _ in made] == [
        "placeholders",
        "casing.upper",
        "casing.title",
        "casing.lower",
        "typos",
        "missing_punctuation",
    ]
    found = {kind: pair for kind, *pair in made}
    (symbol,) = [each for each in list_copy_symbols(ALL) if each in found["placeholders"][0]]
    assert found["placeholders"] == [f"{symbol} is old.", f"{symbol} ist alt."]
    assert found["casing.upper"] == ["ROME IS OLD.", "ROME IST ALT."]
    assert found["casing.title"] == ["Rome Is Old.", "Rome Ist Alt."]
    assert found["casing.lower"] == ["rome is old.", "rome ist alt."]
    assert found["typos"][1] == "Rome ist alt."
    assert found["missing_punctuation"] == ["Rome is old", "Rome ist alt"]
    one_side = Augment(missing_punctuation=MissingPunctuation(rate=1.0, sides="source"))
    assert make(one_side, "Go.", "Geh.") == [("missing_punctuation", "Go", "Geh.")]
    # A pair that has a symbol of its own isn't told apart.
    assert "placeholders" not in [kind for kind, *_ in make(ALL, "<copy1> Rome", "<copy1> Rome")]


def test_rates_are_what_they_claim():
    settings = Augment(
        placeholders=Placeholders(rate=0.3),
        casing=Casing(upper=0.1, title=0.0, lower=0.2),
        typos=Typos(rate=0.5),
        missing_punctuation=MissingPunctuation(rate=0.05),
    )
    count = 4_000
    pairs = [(f"Line {number} here.", f"Zeile {number} hier.") for number in range(count)]
    sources, targets = zip(*pairs, strict=True)
    kinds = Augmenter(settings, 5).augment(sources, targets).kinds
    for kind, rate in (
        ("placeholders", 0.3),
        ("casing.upper", 0.1),
        ("casing.title", 0.0),
        ("casing.lower", 0.2),
        ("typos", 0.5),
        ("missing_punctuation", 0.05),
    ):
        # Five standard deviations of a binomial. An error may by chance change nothing: of two
        # swapped letters that are the same, or one replaced by itself, about one in fifteen.
        deviation = 5 * (rate * (1 - rate) / count) ** 0.5
        least = rate * (0.85 if kind == "typos" else 1.0) - deviation
        assert least <= kinds.count(kind) / count <= rate + deviation, kind


def test_what_becomes_of_a_pair_depends_on_it_and_the_seed_alone():
    pairs = [(f"Anna has {number} books.", f"Anna hat {number} Bücher.") for number in range(50)]
    half = Augment(placeholders=Placeholders(rate=0.5), typos=Typos(rate=0.5))

    def augment(seed, chosen, settings=half):
        return {pair: make(settings, *pair, seed=seed) for pair in chosen}

    assert augment(1, pairs) == augment(1, pairs[::-1])
    assert augment(1, pairs) != augment(2, pairs)
    # Another kind's rate changes nothing of this kind's.
    alone = augment(1, pairs, Augment(typos=Typos(rate=0.5)))
    for pair, made in augment(1, pairs).items():
        assert [each for each in made if each[0] == "typos"] == alone[pair]


def join(lines, rate=1.0, seed=1, languages=("", ""), **settings):
    """Returns the joined sources of some lines, whose targets are the same in capitals."""
    augmenter = Augmenter(Augment(joined=Joined(rate=rate, **settings)), seed, languages=languages)
    added = augmenter.augment(lines, [line.upper() for line in lines])
    assert set(added.kinds) <= {"joined"}
    if languages == ("", ""):
        assert added.targets == [source.upper() for source in added.sources]
    return added.sources


def test_neighbours_are_joined():
    lines = ["a b.", "c.", "d?", "e"]
    assert join(lines, max_sentences=2) == ["a b. c.", "c. d?", "d? e"]
    assert join(["alone"]) == join([]) == []
    augmenter = Augmenter(
        Augment(joined=Joined(rate=1.0, max_sentences=2)), 1, languages=("zh_Hans", "de")
    )
    added = augmenter.augment(["他睡觉。", "他走。"], ["Er schläft.", "Er geht."])
    assert (added.sources, added.targets) == (["他睡觉。他走。"], ["Er schläft. Er geht."])


def test_shares_of_joined_pairs_and_of_their_numbers():
    lines = [str(number) for number in range(6_000)]
    made = [[int(word) for word in line.split()] for line in join(lines, 0.5, max_sentences=4)]
    assert all(numbers == list(range(numbers[0], numbers[-1] + 1)) for numbers in made)
    # Binomial: five deviations of sqrt(6,000 / 4) = 39, and of sqrt(3,000 * 2/9) = 26.
    assert abs(len(made) - 3_000) < 5 * 39
    for size in (2, 3, 4):
        assert abs(sum(len(numbers) == size for numbers in made) - len(made) / 3) < 5 * 26
    assert join(lines, 0.5, seed=2) != join(lines, 0.5)
    # A pair's draw doesn't depend on what is before it.
    assert join(lines[3_000:], 0.5) == [
        line for line in join(lines, 0.5) if int(line.split()[0]) >= 3_000
    ]


RECIPE = """\
name = "small"
[data]
source_language = "en"
target_language = "de"
[[data.train]]
source = "train.en"
target = "train.de"
[data.dev]
source = "dev.en"
target = "dev.de"
[data.augment]
placeholders = { rate = 0.5, num_symbols = 3 }
casing = { upper = 0.1 }
typos = {}
[tokenizer]
vocab_size = 300
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "mtkit.toml").write_text(RECIPE)
    for split, count in (("train", 300), ("dev", 10)):
        pairs = phrasebook.generate_pairs(split, count)
        numbered = [(f"{s} ({n})", f"{t} ({n})") for n, (s, t) in enumerate(pairs)]
        for language, lines in zip(("en", "de"), zip(*numbered, strict=True), strict=True):
            (tmp_path / f"{split}.{language}").write_text("".join(f"{each}\n" for each in lines))
    return tmp_path


def test_prepared_examples_are_counted_and_the_same_from_any_number_of_processes(project):
    recipe = load_recipe(project / "mtkit.toml")
    workspaces = [Workspace(project / "one"), Workspace(project / "two")]
    for workers, workspace in enumerate(workspaces, 1):
        prepare(recipe, workspace, executor=LocalExecutor(workers))
    first, second = (
        {
            path.relative_to(each.data / "train"): path.read_bytes()
            for path in (each.data / "train").rglob("*")
            if path.is_file()
        }
        for each in workspaces
    )
    assert first == second
    workspace = workspaces[0]
    (facts,) = json.loads((workspace.data / "train" / "stage.json").read_text())["facts"]["corpora"]
    added = facts["augmented"]
    assert set(added) == {"casing.lower", "casing.title", "casing.upper", "placeholders", "typos"}
    data = open_prepared(recipe, workspace)
    assert len(data.train) == facts["kept"] + sum(added.values())
    assert added["placeholders"] > 100
    # Tokens of the symbols, counted in the store itself.
    tokenizer = SubwordTokenizer.load(workspace.tokenizer)
    assert tokenizer.masks == ("<copy0>", "<copy1>", "<copy2>")
    with_symbol = 0
    rows = data.train.gather(np.arange(len(data.train)))
    for tokens in rows["target"].to_lists():
        with_symbol += "<copy" in tokenizer.decode_target(tokens)
    assert with_symbol == added["placeholders"]
    assert is_prepared(recipe, workspace)
    other = load_recipe(project / "mtkit.toml", ["data.augment.typos.rate=0.5"])
    assert not is_prepared(other, workspace)


def test_pairs_are_joined_within_their_corpus_without_those_left_out(project):
    # Line 5 again, which is a duplicate, and a line that is too long, among three others.
    for language in ("en", "de"):
        first = (project / f"train.{language}").read_text().splitlines()[5]
        lines = ["x (900)", first, "y (901)", "z " * 150 + "(902)", "w (903)"]
        (project / f"other.{language}").write_text("".join(f"{line}\n" for line in lines))
    corpora = [f"{{source='{name}.en', target='{name}.de'}}" for name in ("train", "other")]
    changes = [
        f"data.train=[{', '.join(corpora)}]",
        "data.augment={joined={rate=1.0, max_sentences=2}}",
        "data.cleaning.max_tokens=150",
    ]
    changes += [
        f"data.cleaning.{key}.enabled=false" for key in ("identical", "letters", "repetition")
    ]
    recipe, workspace = load_recipe(project / "mtkit.toml", changes), Workspace(project / "joined")
    prepare(recipe, workspace)
    data = open_prepared(recipe, workspace)
    tokenizer = SubwordTokenizer.load(workspace.tokenizer)
    rows = data.train.gather(np.arange(len(data.train)))
    made = []
    for column in ("source", "target"):
        lines = [tokenizer.decode_target(row) for row in rows[column].to_lists()]
        numbers = [[int(each) for each in re.findall(r"\d+", line)] for line in lines]
        made.append([found for found in numbers if len(found) > 1])
    expected = [[number, number + 1] for number in range(299)] + [[900, 901]]
    assert made == [expected, expected]
    facts = json.loads((workspace.data / "train" / "stage.json").read_text())["facts"]["corpora"]
    assert [each["augmented"] for each in facts] == [{"joined": 299}, {"joined": 1}]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "nothing to do"),
        ({"joined": {"max_sentences": 1}}, "greater than or equal to 2"),
        ({"typos": {"rate": 0.0}}, "greater than 0"),
        ({"placeholders": {"rate": 1.5}}, "less than or equal to 1"),
    ],
)
def test_faulty_sections_are_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        Augment.model_validate(changes)
