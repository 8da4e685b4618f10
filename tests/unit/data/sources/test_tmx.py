"""Translation memories."""

import gzip
import tracemalloc
from pathlib import Path

import pytest

from mtkit.errors import MtkitError
from mtkit.recipe.corpora import PairedFileCorpus, PairedFileTrainingCorpus

from ....corpus_rows import decode_block

HEAD = '<?xml version="1.0" encoding="{encoding}"?>\n<tmx version="1.4">\n<header/>\n<body>\n'
FOOT = "</body>\n</tmx>\n"


def unit(**segments: str) -> str:
    variants = (
        f'<tuv xml:lang="{language}"><seg>{text}</seg></tuv>' for language, text in segments.items()
    )
    return f"<tu>{''.join(variants)}</tu>\n"


def corpus_of(
    folder: Path, *units: str, encoding: str = "UTF-8", codec: str = ""
) -> PairedFileCorpus:
    return raw(
        folder, (HEAD.format(encoding=encoding) + "".join(units) + FOOT).encode(codec or encoding)
    )


def raw(folder: Path, content: bytes) -> PairedFileCorpus:
    path = folder / "memory.tmx"
    path.write_bytes(content)
    return PairedFileCorpus(path=path)


def fault_of(pairs_of, corpus: PairedFileCorpus) -> MtkitError:
    with pytest.raises(MtkitError) as caught:
        pairs_of(corpus)
    return caught.value


def test_units_are_pairs(tmp_path: Path, pairs_of) -> None:
    corpus = corpus_of(
        tmp_path, unit(en="one", de="eins"), unit(de="zwei &amp; drei", en="2 &lt; 3")
    )
    assert pairs_of(corpus) == [("one", "eins"), ("2 < 3", "zwei & drei")]
    assert pairs_of(corpus, "de", "en")[0] == ("eins", "one")


def test_markup_of_other_formats_is_left_out(tmp_path: Path, pairs_of) -> None:
    # The elements of TMX 1.4b that may stand in <seg>, one inside the other.
    source = (
        'A <bpt i="1">&lt;b&gt;</bpt>bold<ept i="1">&lt;/b&gt;</ept> <hi type="x">very <hi>high'
        '<ph x="1"/></hi></hi> word<it pos="begin">{\\i <sub>not this</sub></it><ut>x</ut>.'
    )
    [(text, _)] = pairs_of(corpus_of(tmp_path, unit(en=source, de="y")))
    assert text == "A bold very high word."
    # Text that XML doesn't allow is found by filters, in CDATA too.
    cut = "<![CDATA[a\x01b]]>c\x02d"
    [(text, _)] = pairs_of(corpus_of(tmp_path, unit(en=cut, de="y")))
    assert text == "a\ufffdbc\ufffdd"
    for code in ("<it pos='begin'>&lt;br/&gt;</it>", "<ph type='lb'/>", "<ph>&lt;BR&gt;</ph>"):
        [(text, _)] = pairs_of(corpus_of(tmp_path, unit(en=f"Hello{code}world", de="y")))
        assert text == "Hello world"


def test_line_breaks_inside_are_spaces_and_nothing_else_is_changed(tmp_path, pairs_of) -> None:
    corpus = corpus_of(
        tmp_path, unit(en="\n one\n\r\n two\n", de="a\u2028b\u0085 c&#13;d"), unit(en="", de="x")
    )
    assert pairs_of(corpus) == [(" one  two", "a\u2028b\u0085 c d"), ("", "x")]


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        (["EN", "de"], "0"),
        (["en-US", "de"], "0"),
        (["EN_gb", "de"], "0"),
        (["en-US", "en", "de"], "1"),
        (["en-GB", "en-US", "de"], "0"),
        (["eng", "de"], None),
        (["x-en", "de"], None),
    ],
)
def test_language_codes(tmp_path: Path, blocks_of, codes: list[str], expected: str | None) -> None:
    texts = {code: str(number) for number, code in enumerate(codes)}
    blocks = blocks_of(corpus_of(tmp_path, unit(en="first", de="erste"), unit(**texts)))
    sources = [line for block in blocks for line in decode_block(block, drop_invalid=False)[0]]
    assert sources == ["first"] + ([expected] if expected is not None else [])


def test_a_region_that_is_asked_for_is_not_any_region(tmp_path: Path, pairs_of) -> None:
    corpus = corpus_of(
        tmp_path, unit(**{"pt-PT": "a", "pt_br": "b", "en": "c"}), unit(pt="d", en="e")
    )
    assert pairs_of(corpus, "pt-BR", "en") == [("b", "c")]


def test_the_old_attribute_and_a_namespace(tmp_path: Path, pairs_of) -> None:
    old = (
        '<tmx version="1.1"><body><tu><tuv lang="EN"><seg>a</seg></tuv><tuv lang="DE"><seg>b</seg>'
    )
    assert pairs_of(raw(tmp_path, f"{old}</tuv></tu></body></tmx>".encode())) == [("a", "b")]
    spaced = HEAD.format(encoding="UTF-8").replace(
        '"1.4"', '"1.4" xmlns="http://www.lisa.org/tmx14"'
    )
    assert pairs_of(raw(tmp_path, f"{spaced}{unit(en='a', de='b')}{FOOT}".encode())) == [("a", "b")]


def test_units_without_both_languages_are_counted(tmp_path: Path, blocks_of) -> None:
    lacking = unit(en="x", fr="y")
    both = unit(en="a", de="b")
    no_segment = '<tu><tuv xml:lang="en"/><tuv xml:lang="de"><seg>x</seg></tuv></tu>'
    corpus = corpus_of(
        tmp_path, lacking, both, both, lacking, no_segment, both, both, both, "<tu/>", lacking
    )
    blocks = blocks_of(corpus)
    assert [(block.first, block.num_rows, block.num_skipped) for block in blocks] == [
        (0, 2, 1), (2, 2, 2), (4, 1, 2),
    ]  # fmt: skip


def test_max_pairs(tmp_path: Path, blocks_of) -> None:
    path = corpus_of(tmp_path, unit(en="a", de="b"), unit(en="c", de="d"), "<broken").path
    [block] = blocks_of(PairedFileTrainingCorpus(path=path, max_pairs=1))
    assert block.content[0] == [b"a"]


@pytest.mark.parametrize(
    ("encoding", "codec"),
    [
        ("UTF-16", "utf-16"),
        ("UTF-16", "utf-16-be"),
        ("ISO-8859-1", "latin-1"),
        ("windows-1252", "cp1252"),
    ],
)
def test_other_encodings(tmp_path: Path, pairs_of, encoding: str, codec: str) -> None:
    mark = "\ufeff" if codec == "utf-16-be" else ""
    text = f"{mark}{HEAD.format(encoding=encoding)}{unit(en='café', de='schön')}{FOOT}"
    assert pairs_of(raw(tmp_path, text.encode(codec))) == [("café", "schön")]


@pytest.mark.parametrize("encoding", ["klingon", "big5"])
def test_an_encoding_that_is_not_known(tmp_path: Path, pairs_of, encoding: str) -> None:
    fault = fault_of(
        pairs_of, corpus_of(tmp_path, unit(en="a", de="b"), encoding=encoding, codec="ascii")
    )
    assert fault.message.startswith(f"{tmp_path / 'memory.tmx'}:1: ")
    assert "encoding" in fault.message


def test_what_is_not_well_formed_is_told_by_line(tmp_path: Path, pairs_of) -> None:
    # Four lines of head, then the units.
    fault = fault_of(pairs_of, corpus_of(tmp_path, unit(en="a", de="b"), unit(en="a < b", de="x")))
    assert fault.message.startswith(f"{tmp_path / 'memory.tmx'}:6: not well-formed XML: ")
    cut = (HEAD.format(encoding="UTF-8") + unit(en="a", de="b")).encode()
    assert "no element found" in fault_of(pairs_of, raw(tmp_path, cut)).message
    assert (
        "memory.tmx:1: not well-formed XML" in fault_of(pairs_of, raw(tmp_path, b"text\n")).message
    )


@pytest.mark.parametrize(
    "character", ["&#x1F;", "&#31;", "&#x000B;", "\x01", "&#xD83D;", "&#xFFFF;", "&#0;", "&#57343;"]
)
def test_a_character_that_xml_cannot_write_spoils_its_unit_alone(
    tmp_path: Path, pairs_of, character: str
) -> None:
    units = [unit(en=f"number {index}", de=f"Nummer {index}") for index in range(2_000)]
    units[1_000] = unit(en=f"a{character}b", de="c")
    text = f"{HEAD.format(encoding='UTF-8')}{''.join(units)}{FOOT}"
    pairs = pairs_of(raw(tmp_path, text.encode()))
    assert len(pairs) == 2_000
    # What the filter `encoding` finds.
    assert pairs[1_000] == ("a\ufffdb", "c")
    assert pairs[999] == ("number 999", "Nummer 999")


def test_another_kind_of_xml(tmp_path: Path, pairs_of) -> None:
    fault = fault_of(pairs_of, raw(tmp_path, b"<xliff><body/></xliff>"))
    assert fault.message.endswith("memory.tmx: the root element is <xliff>, not <tmx>")


def test_a_memory_without_the_languages(tmp_path: Path, pairs_of) -> None:
    fault = fault_of(pairs_of, corpus_of(tmp_path, unit(en="a", fr="b"), unit(de="c", it="d")))
    assert fault.message.endswith(
        "none of its 2 units has both 'en' and 'de'; languages found: 'de', 'en', 'fr', 'it'"
    )
    assert "no translation unit (<tu>) in it" in fault_of(pairs_of, corpus_of(tmp_path)).message


def test_a_damaged_packed_memory(tmp_path: Path, pairs_of) -> None:
    units = "".join(unit(en=f"one {number}", de=f"eins {number}") for number in range(5_000))
    packed = gzip.compress((HEAD.format(encoding="UTF-8") + units + FOOT).encode())
    path = tmp_path / "memory.tmx.gz"
    path.write_bytes(packed)
    assert len(pairs_of(PairedFileCorpus(path=path))) == 5_000
    path.write_bytes(packed[: len(packed) // 2])
    fault = fault_of(pairs_of, PairedFileCorpus(path=path))
    assert fault.message.startswith(f"{path}: damaged gzip file: ")


def test_entities_that_multiply_are_stopped(tmp_path: Path, pairs_of) -> None:
    # "Billion laughs": ten to the ninth copies of one word, 3 GB of text, out of 1 kB.
    entities = '<!ENTITY e0 "lol">' + "".join(
        f'<!ENTITY e{level} "{f"&e{level - 1};" * 10}">' for level in range(1, 10)
    )
    bomb = f'<!DOCTYPE tmx [{entities}]><tmx version="1.4"><body>{unit(en="&e9;", de="x")}'
    corpus = raw(tmp_path, f"{bomb}</body></tmx>".encode())
    tracemalloc.start()
    fault = fault_of(pairs_of, corpus)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "amplification" in fault.message
    assert peak < 100 << 20


def test_nothing_outside_the_file_is_read(tmp_path: Path, pairs_of) -> None:
    (tmp_path / "secret").write_text("secret")
    kind = f'<!DOCTYPE tmx [<!ENTITY outside SYSTEM "{(tmp_path / "secret").as_uri()}">]>'
    text = f'{kind}<tmx version="1.4"><body>{unit(en="&outside;", de="x")}{FOOT}'
    assert "undefined entity" in fault_of(pairs_of, raw(tmp_path, text.encode())).message
    # What memories name at their head is no fault, and isn't fetched.
    named = (
        f'<!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx version="1.4"><body>{unit(en="a", de="b")}{FOOT}'
    )
    assert pairs_of(raw(tmp_path, named.encode())) == [("a", "b")]


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    from mtkit.data.sources.corpora import read_blocks  # noqa: PLC0415

    units = "".join(unit(en=f"number {number}", de=f"Nummer {number}") for number in range(20_000))
    corpus = corpus_of(tmp_path, units)
    assert corpus.path.stat().st_size > 2 << 20
    tracemalloc.start()
    num_pairs = sum(
        block.num_rows
        for block in read_blocks(corpus, index=0, rows_per_block=100, languages=("en", "de"))
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert num_pairs == 20_000
    assert peak < 1 << 20


@pytest.mark.parametrize("skip", ["1-5", "2-"])
def test_skipped_rows_with_entries_that_are_no_rows(tmp_path: Path, pairs_of, skip: str) -> None:
    text = (HEAD.format(encoding="utf-8") + unit(en="a", de="b") + unit(en="c") + FOOT).encode()
    last = unit(en="d", de="e").encode()
    (tmp_path / "memory.tmx").write_bytes(text.replace(b"</body>", last + b"</body>"))
    corpus = PairedFileTrainingCorpus(path=tmp_path / "memory.tmx", skip=skip)
    assert pairs_of(corpus) == ([] if skip == "1-5" else [("a", "b")])
