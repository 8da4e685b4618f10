"""Files of programs' strings as corpora."""

import gzip
from pathlib import Path

import pytest
from pydantic import ValidationError

from mtkit.data.sources.string_corpora import read_declared_languages
from mtkit.errors import MtkitError
from mtkit.recipe.corpora import FileCorpus, FileTrainingCorpus, PairedFileCorpus

PO = """\
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\nPlural-Forms: nplurals=2; plural=n != 1;\\n"

#, fuzzy
msgid "Guess"
msgstr "Vermutung"

msgid "Open file\\n"
"now"
msgstr "Datei jetzt\\n"
"öffnen"

msgid "Untranslated"
msgstr ""

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d Datei"
msgstr[1] "%d Dateien"
"""
XLIFF = """\
<?xml version="1.0"?><xliff version="1.2"><file source-language="en" target-language="de"><body>
<trans-unit id="1"><source>Save <g id="1">all</g></source><target>Alles <g id="1">sichern</g>
</target></trans-unit><trans-unit id="2"><source>Left</source></trans-unit></body></file></xliff>
"""


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "de.po",
            PO.encode(),
            [
                ("Open file now", "Datei jetzt öffnen"),
                ("%d file", "%d Datei"),
                ("%d files", "%d Dateien"),
            ],
        ),
        ("de.po.gz", gzip.compress(PO.encode()), 3),
        ("de.xlf", XLIFF.encode(), [("Save all", "Alles sichern")]),
    ],
)
def test_finished_translations_are_pairs(
    tmp_path: Path, pairs_of, name: str, content: bytes, expected: list[tuple[str, str]] | int
) -> None:
    (tmp_path / name).write_bytes(content)
    found = pairs_of(PairedFileCorpus(path=tmp_path / name))
    if isinstance(expected, int):
        assert len(found) == expected
    else:
        # A line break in a text becomes a space.
        assert [tuple(map(str.strip, pair)) for pair in found] == expected


def test_files_of_one_language_are_paired_by_key(tmp_path: Path, pairs_of, blocks_of) -> None:
    (tmp_path / "en.properties").write_text("# note\nquit=Quit\nopen = Open \\\n  file\nnew=New\n")
    (tmp_path / "de.properties").write_text("open=Datei \\u00f6ffnen\nquit=Beenden\nold=Alt\n")
    corpus = FileCorpus(source=tmp_path / "en.properties", target=tmp_path / "de.properties")
    assert pairs_of(corpus) == [("Quit", "Beenden"), ("Open file", "Datei öffnen")]
    rows = [block.decode(drop_invalid=False) for block in blocks_of(corpus)]
    assert sum(each.num_skipped for each in rows) == 2


def test_a_key_that_comes_twice(tmp_path: Path, pairs_of) -> None:
    (tmp_path / "en.ftl").write_text("a = one\na = two\n")
    (tmp_path / "de.ftl").write_text("a = eins\na = zwei\n")
    corpus = FileCorpus(source=tmp_path / "en.ftl", target=tmp_path / "de.ftl")
    assert pairs_of(corpus) == [("one", "eins"), ("two", "zwei")]


def test_faults(tmp_path: Path, pairs_of) -> None:
    with pytest.raises(ValidationError, match=r"a\.ftl is fluent, but b\.txt is text"):
        FileCorpus(source=tmp_path / "a.ftl", target=tmp_path / "b.txt")
    with pytest.raises(ValidationError, match="alignments need two text files"):
        FileTrainingCorpus(
            source=tmp_path / "a.ftl", target=tmp_path / "b.ftl", alignments=tmp_path / "c"
        )
    with pytest.raises(ValidationError, match="has no columns"):
        PairedFileCorpus(path=tmp_path / "a.po", source_column=1, target_column=2)
    (tmp_path / "a.po").write_text('msgid "open\n')
    with pytest.raises(MtkitError, match=r"a\.po: line 1"):
        pairs_of(PairedFileCorpus(path=tmp_path / "a.po"))
    (tmp_path / "b.po").write_text('msgid "a"\nmsgstr ""\n')
    with pytest.raises(MtkitError, match=r"b\.po: no finished translation in it"):
        pairs_of(PairedFileCorpus(path=tmp_path / "b.po"))
    (tmp_path / "c.mo").write_bytes(b"\xde\x12\x04\x95" + b"\xff" * 40)
    with pytest.raises(MtkitError, match=r"c\.mo: "):
        pairs_of(PairedFileCorpus(path=tmp_path / "c.mo"))


def test_half_of_a_surrogate_pair_is_invalid_text(tmp_path: Path, pairs_of) -> None:
    (tmp_path / "a.json").write_text('{"k": "\\ud800x", "l": "b"}')
    (tmp_path / "b.json").write_text('{"k": "y", "l": "z"}')
    corpus = FileCorpus(source=tmp_path / "a.json", target=tmp_path / "b.json")
    with pytest.raises(MtkitError, match="UTF-8"):
        pairs_of(corpus)


def write_xliff(path: Path, *files: tuple[str, str, str, str]) -> PairedFileCorpus:
    """Writes XLIFF 1.2 of some files, each with its languages and a pair, and returns a corpus."""
    parts = "".join(
        f'<file source-language="{source_language}" target-language="{target_language}"><body>'
        f'<trans-unit id="1"><source>{source}</source><target>{target}</target></trans-unit>'
        "</body></file>"
        for source_language, target_language, source, target in files
    )
    path.write_text(f'<xliff version="1.2">{parts}</xliff>')
    return PairedFileCorpus(path=path)


def test_files_in_other_languages_are_skipped(tmp_path: Path, pairs_of, blocks_of) -> None:
    files = [
        ("en-US", "fr", "Hello", "Bonjour"),
        ("en-US", "de-AT", "Hello", "Servus"),
        ("eng", "deu", "Cat", "Katze"),
        ("de", "en", "Hund", "Dog"),
    ]
    corpus = write_xliff(tmp_path / "all.xlf", *files)
    assert pairs_of(corpus) == [("Hello", "Servus"), ("Cat", "Katze")]
    rows = [block.decode(drop_invalid=False) for block in blocks_of(corpus)]
    assert sum(each.num_skipped for each in rows) == 2
    assert read_declared_languages(corpus.path, ("en", "de")) == ("en-US", "de-AT")
    assert read_declared_languages(corpus.path, ("en", "it")) == ("en-US", "fr")
    with pytest.raises(MtkitError, match="none of its 2 translations is from 'en' to 'de'") as told:
        pairs_of(write_xliff(tmp_path / "b.xlf", files[0], files[3]))
    assert "found: 'de to en', 'en-US to fr'" in told.value.message
    # What a single file declares is only compared: headers are often wrong.
    assert pairs_of(write_xliff(tmp_path / "c.xlf", files[0])) == [("Hello", "Bonjour")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.po", 'msgid ""\nmsgstr "Language: de\\n"\n\n#, fuzzy\nmsgid "a"\nmsgstr "b"\n'),
        ("a.xlf", XLIFF.replace("<target", '<target state="new"')),
    ],
)
def test_a_file_without_a_finished_translation(tmp_path, pairs_of, name, content) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(MtkitError, match=rf"{name}: no finished translation in it$") as told:
        pairs_of(PairedFileCorpus(path=tmp_path / name))
    assert told.value.hint == "fuzzy, obsolete, unreviewed and blank ones aren't read"


def test_files_without_a_common_key(tmp_path: Path, pairs_of) -> None:
    (tmp_path / "en.properties").write_text("a=one\n")
    (tmp_path / "de.properties").write_text("b=eins\n")
    corpus = FileCorpus(source=tmp_path / "en.properties", target=tmp_path / "de.properties")
    with pytest.raises(
        MtkitError, match=r"en\.properties and \S+de\.properties: no key in common$"
    ):
        pairs_of(corpus)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('<x id="1" ctype="lb"/>', "Line break"),
        ('<ph id="1" type="fmt" subType="xlf:lb"/>', "Line break"),
        ('<ph id="1" disp="&lt;br /&gt;"/>', "Line break"),
        ('<x id="1" equiv-text="&lt;BR&gt;"/>', "Line break"),
        ('<ph id="1">&lt;br&gt;</ph>', "Line break"),
        # Other codes say nothing of the text next to them.
        ('<x id="1" ctype="x-i"/>', "Linebreak"),
        ('<ph id="1">&lt;break&gt;</ph>', "Linebreak"),
    ],
)
def test_codes_for_line_breaks_are_spaces(
    tmp_path: Path, pairs_of, code: str, expected: str
) -> None:
    corpus = write_xliff(tmp_path / "a.xlf", ("en", "de", f"Line{code}break", "Zeile"))
    assert pairs_of(corpus) == [(expected, "Zeile")]
