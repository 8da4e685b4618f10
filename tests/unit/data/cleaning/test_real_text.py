"""Faults planted in real text: what is planted is found, and how much else is dropped is stated."""

import unicodedata
from collections.abc import Callable

import pytest

from mtkit.data.cleaning.clean import Cleaned, Cleaner

Lines = list[str]
Read = Callable[[str, str, str], tuple[Lines, Lines]]
Make = Callable[..., Cleaner]


def counts(cleaned: Cleaned) -> dict[str, int]:
    """Returns how many pairs each filter dropped, those that dropped none left out."""
    return {name: len(places) for name, places in cleaned.dropped.items() if len(places)}


PROFESSIONAL = {
    ("newstest_en_fr/newstest2013", "fr"): {"length_ratio": 1, "identical": 1, "numbers": 2},
    ("newstest_en_fr/newstest2014", "fr"): {"numbers": 1},
    ("mixed_en_de/dev", "de"): {"identical": 1},
    ("mixed_en_de/test", "de"): {"length_ratio": 2, "identical": 1, "numbers": 1},
    ("flores200/devtest", "de"): {},
    ("flores200/devtest", "fr"): {"numbers": 2},
    ("flores200/devtest", "zh"): {"length_ratio": 3, "numbers": 3},
    ("flores200/devtest", "ja"): {"numbers": 2},
}


@pytest.mark.parametrize(("name", "language"), PROFESSIONAL)
def test_what_is_dropped_of_professional_translations(
    corpus: Read, default_cleaner: Make, name: str, language: str
) -> None:
    pairs = corpus(name, "en", language)
    cleaned = default_cleaner("en", language, pairs).clean(*pairs)
    assert counts(cleaned) == PROFESSIONAL[name, language]
    assert sum(counts(cleaned).values()) < 0.01 * len(pairs[0])


def test_captions(corpus: Read, default_cleaner: Make) -> None:
    captions = corpus("multi30k/train", "en", "de")
    cleaner = default_cleaner("en", "de", corpus("multi30k/val", "en", "de"))
    # Two targets are "@@".
    assert counts(cleaner.clean(*captions)) == {"length_ratio": 2}


def test_web_text(corpus: Read, default_cleaner: Make) -> None:
    crawl = corpus("opennmt_sample_en_de/train", "en", "de")
    cleaner = default_cleaner("en", "de", corpus("mixed_en_de/dev", "en", "de"))
    cleaned = cleaner.clean(*crawl)
    found = counts(cleaned)
    assert found["blank"] == 1
    lost = {place for place, line in enumerate(crawl[0]) if "\ufffd" in line}
    lost |= {place for place, line in enumerate(crawl[1]) if "\ufffd" in line}
    assert lost <= set(cleaned.dropped["encoding"].tolist())
    assert 300 < sum(found.values()) < 400


def test_swapped_languages_by_script(corpus: Read, make_cleaner: Make) -> None:
    english, chinese = corpus("flores200/devtest", "en", "zh")
    cleaner = make_cleaner("script", target="zh")
    assert counts(cleaner.clean(english, chinese)) == {}
    assert counts(cleaner.clean(chinese, english)) == {"script": 1_012}
    assert counts(cleaner.clean(english, english)) == {"script": 1_012}


def test_swapped_and_other_languages_by_identification(corpus: Read, make_cleaner: Make) -> None:
    english, german = (side[:500] for side in corpus("mixed_en_de/test", "en", "de"))
    _, french = corpus("newstest_en_fr/newstest2014", "en", "fr")
    cleaner = make_cleaner("language")
    assert len(cleaner.clean(english, german).dropped["language"]) <= 1
    assert len(cleaner.clean(german, english).dropped["language"]) == 500
    assert len(cleaner.clean(english, french[:500]).dropped["language"]) == 499


def test_a_file_that_is_one_line_off(corpus: Read, default_cleaner: Make) -> None:
    english, german = corpus("mixed_en_de/test", "en", "de")
    cleaner = default_cleaner("en", "de", (english, german))
    cleaned = cleaner.clean(english, german[1:] + german[:1])
    dropped = counts(cleaned)
    # What a pair's lengths and numbers can say; the warning says the rest.
    assert dropped["length_ratio"] > 0.25 * len(english)
    assert dropped["numbers"] > 0.05 * len(english)
    (found,) = cleaned.misaligned
    assert (found["first"], found["last"], found["shift"]) == (0, len(english) - 1, -1)


def test_test_sentences_inside_the_training_text(corpus: Read, make_cleaner: Make) -> None:
    english, german = (side[:9_000] for side in corpus("mixed_en_de/train", "en", "de"))
    test = corpus("mixed_en_de/test", "en", "de")
    cleaner = make_cleaner("overlap", held_out=zip(*test, strict=True))
    before = set(cleaner.clean(english, german).dropped["overlap"].tolist())
    assert before == set()
    disguises: tuple[Callable[[str], str], ...] = (
        str.upper,
        str.lower,
        lambda line: line.replace(" ", "  ").rstrip(".!?"),
        lambda line: f"„{line}“ – ",
        lambda line: "".join(f"{character}\u00ad" for character in line),
        lambda line: line.replace(",", "").replace("-", " "),
    )
    # Long ones only, of which one side is enough; every other time it is the target.
    long = [
        place for place in range(len(test[0])) if min(len(test[0][place]), len(test[1][place])) > 40
    ][:600]
    for number, place in enumerate(long):
        disguise = disguises[number % len(disguises)]
        side = number % 2
        (english, german)[side][number * 15] = disguise(test[side][place])
    found = cleaner.clean(english, german).dropped["overlap"]
    assert found.tolist() == [number * 15 for number in range(len(long))]


ONE_SIDED = {
    # Lines of which a copy with another translation isn't found: too short to be of this set alone.
    ("python_docs_en_zh/test", "zh"): 0.115,
    ("python_docs_en_zh/dev", "zh"): 0.111,
    ("flores200/devtest", "zh"): 0.0,
    ("flores200/devtest", "ja"): 0.0,
}


@pytest.mark.parametrize(("name", "language"), ONE_SIDED)
def test_one_sided_copies_of_chinese_and_japanese(
    corpus: Read, make_cleaner: Make, name: str, language: str
) -> None:
    english, targets = corpus(name, "en", language)
    cleaner = make_cleaner("overlap", target=language, held_out=zip(english, targets, strict=True))
    sources = [f"a translation of another kind, {number}" for number in range(len(targets))]
    found = cleaner.clean(sources, targets).dropped["overlap"]
    assert len(found) >= (1 - ONE_SIDED[name, language]) * len(targets)


def test_alarms_in_documentation_of_the_same_kind(corpus: Read, make_cleaner: Make) -> None:
    test, dev, train = (
        corpus(f"python_docs_en_zh/{split}", "en", "zh") for split in ("test", "dev", "train")
    )
    held_out = [pair for side in (test, dev) for pair in zip(*side, strict=True)]
    cleaner = make_cleaner("overlap", target="zh", held_out=held_out)
    found = cleaner.clean(*train).dropped["overlap"].tolist()
    # Copies, or such but for a word, each of which was read; headings such as "Queues" stay.
    assert len(found) == 53
    assert not {"Examples", "Queues", "default"} & {train[0][place] for place in found}


@pytest.mark.parametrize("form", ["NFD", "NFKD"])
def test_test_sentences_in_another_form_of_unicode(
    corpus: Read, make_cleaner: Make, form: str
) -> None:
    for name, source, target in (
        ("newstest_en_fr/newstest2014", "en", "fr"),
        ("flores200/devtest", "zh", "ja"),
    ):
        test = corpus(name, source, target)
        cleaner = make_cleaner("overlap", held_out=zip(*test, strict=True))
        others = [[unicodedata.normalize(form, line) for line in side] for side in test]
        assert len(cleaner.clean(*others).dropped["overlap"]) == len(test[0])


def test_broken_lines_among_good_ones(corpus: Read, make_cleaner: Make) -> None:
    english, german = corpus("mixed_en_de/dev", "en", "de")
    cleaner = make_cleaner("encoding")
    assert counts(cleaner.clean(english, german)) == {}

    def misread(line: str) -> str | None:
        try:
            return line.encode("utf-8").decode("cp1252")
        except UnicodeDecodeError:
            return None

    planted: set[int] = set()
    for place, line in enumerate(german):
        mojibake = misread(line)
        if place % 3 == 0 and mojibake is not None and mojibake != line:
            german[place] = mojibake
            planted.add(place)
    assert len(planted) > 500
    for place in range(1, len(german), 30):
        english[place] = english[place][:9] + "\x00" + english[place][9:]
        planted.add(place)
    repaired = range(2, len(german), 30)
    for place in repaired:
        german[place] = f"{german[place][:2]}\ufeff\u2028{german[place][2:]}\u0085"
    cleaned = cleaner.clean(english, german)
    assert set(cleaned.dropped["encoding"].tolist()) == planted
    # The soft hyphens are second halves of planted letters: "í" is 0xC3 0xAD.
    assert cleaned.repaired == {
        "c1_control": 100,
        "separator": 100,
        "byte_order_mark": 100,
        "zero_width_space": 0,
        "soft_hyphen": 8,
    }
    assert all(
        "\u0085" not in line and "\u2028" not in line and "\ufeff" not in line
        for line in cleaned.sides[1]
    )
    assert len(cleaned.sides[0]) == len(english) - len(planted)


def test_a_line_of_a_hundred_thousand_characters(corpus: Read, default_cleaner: Make) -> None:
    english, german = corpus("mixed_en_de/dev", "en", "de")
    cleaner = default_cleaner("en", "de", (english, german))
    before = cleaner.clean(english, german)
    place = int(before.indices[1_000])
    german[place] = "Größe, " * 14_286
    after = cleaner.clean(english, german)
    assert after.dropped["length"].tolist() == [place]
    assert set(before.indices.tolist()) - set(after.indices.tolist()) == {place}
