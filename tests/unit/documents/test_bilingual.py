"""XLIFF and TMX: which texts get a translation, and where it stands; read again by lxml."""

import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from lxml import etree

from mtkit.documents.document import LanguageCodes, TranslatedText
from mtkit.documents.translate_file import translate_content, translate_file, translate_markup
from mtkit.errors import MtkitError

from .translators import keep_text, read_texts, reverse_words, take_all

LANGUAGES = LanguageCodes("en", "de")
_XLIFF_1 = """<?xml version="1.0"?>\r
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
 <file source-language="en-US" datatype="html" original="a.html"><body>
  <trans-unit id="1">
    <source>The <g id="1">old man</g> sings<x id="2"/> &amp; smiles.</source>
    <alt-trans><source>no</source><target/></alt-trans>
  </trans-unit>
  <trans-unit id="2"><source>Done</source><target state="final">Fertig</target></trans-unit>
  <trans-unit id="3" translate="no"><source>Keep</source></trans-unit>
  <trans-unit id="4"><source><bpt id="1">&lt;b&gt;</bpt>Bold word<ept id="1"
>&lt;/b&gt;</ept></source>
  <target state="new" xml:lang="de"/></trans-unit>
  <group translate="no"><trans-unit id="5"><source>Keep</source></trans-unit></group>
  <trans-unit id="6"><source>42</source></trans-unit>
  <trans-unit id="7"><source>Use <ph id="1">%s</ph> of <bpt id="2" rid="9">[</bpt>two words<ept
 id="3" rid="9">]</ept> now</source><seg-source>x</seg-source></trans-unit>
 </body></file></xliff>"""
_XLIFF_2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en">
 <file id="f"><unit id="1"><segment>
   <source>Go <pc id="1">far away</pc> <mrk id="m" translate="no">Acme Corp</mrk> now</source>
 </segment><segment state="final"><source>Done</source><target>Fertig</target></segment>
 <segment state="initial"><source>One <sc id="2"/>two<ec startRef="2"/></source></segment>
 </unit><unit id="2" translate="no"><segment><source>Keep</source></segment></unit></file>
</xliff>"""
_TMX = """<tmx version="1.4"><header srclang="en" segtype="sentence"/><body>
 <tu>
  <tuv xml:lang="en">
   <seg>A <bpt i="1">&lt;b></bpt>big dog<ept i="1">&lt;/b></ept> runs</seg>
  </tuv>
 </tu>
 <tu><tuv xml:lang="EN-gb"><seg>Done</seg></tuv><tuv xml:lang="de"><seg>Fertig</seg></tuv></tu>
 <tu><tuv xml:lang="fr"><seg>Un chat</seg></tuv></tu>
 <tu><tuv lang="en"><seg>a <hi>cat</hi></seg></tuv><tuv lang="de-AT"><seg/></tuv></tu>
</body></tmx>"""
FILES = {"xliff 1.2": ("xliff", _XLIFF_1), "xliff 2": ("xliff", _XLIFF_2), "tmx": ("tmx", _TMX)}


def translate(name: str, translator: object = reverse_words) -> str:
    form, text = FILES[name]
    return translate_content(text.encode(), form, translator, LANGUAGES)[0].decode()  # type: ignore[arg-type]


def read_targets(text: str) -> dict[str, tuple[str, dict[str, str]]]:
    """Returns each target's text and attributes by its source's text."""
    found = {}
    for target in etree.fromstring(text.encode()).iter("{*}target"):
        source = next(target.getparent().iter("{*}source"))
        found["".join(source.itertext())] = ("".join(target.itertext()), dict(target.attrib))
    return found


def test_xliff_1_gets_the_targets_that_it_lacks() -> None:
    translated = translate("xliff 1.2")
    targets = read_targets(translated)
    assert targets["Done"] == ("Fertig", {"state": "final"})
    assert targets["no"] == ("", {})
    assert not {"Keep", "42"} & targets.keys()
    made = {"state": "needs-review-translation", "state-qualifier": "leveraged-mt"}
    language = {"{http://www.w3.org/XML/1998/namespace}lang": "de"}
    assert targets["<b>Bold word</b>"] == ("<b>WORD BOLD</b>", {**language, **made})
    assert '<g id="1">MAN OLD</g>' in translated
    assert translated.count("<x id=") == 2
    assert '<bpt id="2" rid="9">[</bpt>WORDS TWO<ept\n id="3" rid="9">]</ept>' in translated
    # Where it says that a file's language is the translation's.
    assert 'original="a.html" target-language="de">' in translated
    lines = [line for line in translated.split("\n") if line not in _XLIFF_1.split("\n")]
    assert lines[1].startswith('    <target state="needs-review')


def test_xliff_2_gets_the_targets_that_it_lacks() -> None:
    translated = translate("xliff 2")
    targets = read_targets(translated)
    assert targets["Done"] == ("Fertig", {})
    assert '<pc id="1">AWAY FAR</pc>' in translated
    assert translated.count('<mrk id="m" translate="no">Acme Corp</mrk>') == 2
    assert '<sc id="2"/>TWO<ec startRef="2"/> ONE</target>' in translated
    states = [each.get("state") for each in etree.fromstring(translated).iter("{*}segment")]
    assert states == ["translated", "final", "translated", None]
    assert etree.fromstring(translated).get("trgLang") == "de"


def release_short(texts: Sequence[str]) -> list[TranslatedText]:
    """Translates into capitals, and releases what has at most four words."""
    return [TranslatedText(text.upper(), released=len(text.split()) <= 4) for text in texts]


def test_the_state_of_what_is_released_in_xliff_1() -> None:
    targets = read_targets(translate("xliff 1.2", release_short))
    assert targets["<b>Bold word</b>"][1]["state"] == "translated"
    (long,) = [of for source, of in targets.items() if source.startswith("The old man")]
    assert long[1]["state"] == "needs-review-translation"
    assert targets["Done"] == ("Fertig", {"state": "final"})


def test_the_state_of_what_is_released_in_xliff_2() -> None:
    translated = translate("xliff 2", release_short)
    segments = etree.fromstring(translated).iter("{*}segment")
    # The first has five words, the third two.
    assert [each.get("state") for each in segments] == ["initial", "final", "translated", None]
    assert ">GO " in translated


def test_segments_of_one_target_share_its_state() -> None:
    text = """<xliff version="1.2"><file source-language="en"><body><trans-unit id="1">
 <source>A cat. A b c d e f.</source>
 <seg-source><mrk mtype="seg" mid="1">A cat.</mrk> <mrk mtype="seg" mid="2">A b c d e f.</mrk>
 <mrk mtype="seg" mid="3">B b c d e f.</mrk></seg-source>
 <target state="translated"><mrk mtype="seg" mid="1"/> <mrk mtype="seg" mid="2"/>
 <mrk mtype="seg" mid="3"/></target></trans-unit></body></file></xliff>"""

    def state(translator: object) -> str | None:
        found, _ = translate_content(text.encode(), "xliff", translator, LANGUAGES)  # type: ignore[arg-type]
        (target,) = etree.fromstring(found).iter("{*}target")
        assert "".join(target.itertext()).split()[:2] == ["A", "CAT."]
        return target.get("state")

    assert state(release_short) == "needs-review-translation"
    assert state(lambda texts: [TranslatedText(text.upper()) for text in texts]) == "translated"


@pytest.mark.parametrize("before", ["", ' state="needs-translation"', " state='new'"])
@pytest.mark.parametrize(
    ("second", "given", "released", "expected"),
    [
        ("A dog.", "", True, "translated"),
        # What isn't released, was there before, or has no place, isn't known to be right.
        ("A b c d e f.", "", True, "needs-review-translation"),
        ("A dog.", "Ein Hund.", True, None),
        ("A dog.", None, True, None),
        ("A dog.", "", None, None),
    ],
)
def test_a_target_is_translated_once_all_its_segments_are_released(
    before: str, second: str, given: str | None, released: bool | None, expected: str | None
) -> None:
    place = "" if given is None else f'<mrk mtype="seg" mid="2">{given}</mrk>'
    text = f"""<xliff version="1.2"><file source-language="en"><body><trans-unit id="1">
 <source>A cat. {second}</source>
 <seg-source><mrk mtype="seg" mid="1">A cat.</mrk> <mrk mtype="seg" mid="2">{second}</mrk>
 </seg-source>
 <target{before}><mrk mtype="seg" mid="1"/>{place}</target></trans-unit></body></file></xliff>"""
    translator = release_short if released else partial(map, TranslatedText)
    found, _ = translate_content(text.encode(), "xliff", translator, LANGUAGES)  # type: ignore[arg-type]
    (target,) = etree.fromstring(found).iter("{*}target")
    unchanged = etree.fromstring(f"<a{before}/>").get("state")
    assert target.get("state") == (expected or unchanged)


def test_a_memory_gets_the_translations_that_it_lacks() -> None:
    translated = translate("tmx")
    texts = [
        [("".join(each.itertext())) for each in entry.iter("seg")]
        for entry in etree.fromstring(translated.encode()).iter("tu")
    ]
    assert texts[0][1].startswith("RUNS <b>DOG BIG</b>") or "<b>DOG BIG</b>" in texts[0][1]
    assert texts[1:] == [["Done", "Fertig"], ["Un chat"], ["a cat", "CAT A"]]
    assert '\n  <tuv xml:lang="de">\n   <seg>' in translated
    assert "<hi>CAT</hi> A" in translated


@pytest.mark.parametrize("name", FILES)
def test_all_else_stays_and_a_second_time_nothing_is_done(name: str) -> None:
    form, text = FILES[name]
    seen: list[str] = []
    translated = translate(name)
    again = translate_content(
        translated.encode(), form, lambda texts: take_all(texts, seen), LANGUAGES
    )[0]
    assert (again.decode(), seen) == (translated, [])
    rest = iter(translated)
    # All of the source is in it, in order; only attributes of state and empty targets change.
    kept = text.replace("<target", "").replace("<seg/>", "").replace(' state="new"', "")
    kept = kept.replace(' state="initial"', "").replace('xml:lang="de"/>', 'xml:lang="de"')
    assert all(character in rest for character in kept)


@pytest.mark.parametrize("name", FILES)
def test_broken_files_are_refused_and_nothing_is_written(name: str, tmp_path: Path) -> None:
    form, text = FILES[name]
    rng = random.Random(name)
    source, output = tmp_path / "in", tmp_path / "out"
    for _ in range(50):
        source.write_text(text[: rng.randrange(1, len(text) - 10)])
        with pytest.raises(MtkitError):
            translate_file(source, output, keep_text, LANGUAGES, form)
        assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize(
    ("form", "text", "fault"),
    [
        ("xliff", "<a/>", "not XLIFF"),
        ("tmx", "<a/>", "not TMX"),
        ("xliff", '<xliff>\n<file source-language="fr"/></xliff>', "line 2: .* from 'fr'"),
        ("xliff", '<xliff srcLang="en" trgLang="fr"/>', "into 'fr', but the model"),
        ("xliff", '<!DOCTYPE a [<!ENTITY x "y">]><xliff/>', "entity 'x'"),
        ("tmx", "<tmx>" + "<a>" * 2_000, "more than 1,000 elements"),
    ],
)
def test_faults_are_told(form: str, text: str, fault: str) -> None:
    with pytest.raises(MtkitError, match=fault):
        translate_content(text.encode(), form, keep_text, LANGUAGES)


@pytest.mark.parametrize(
    ("unit", "written", "skipped"),
    [
        (
            '<trans-unit id="1" translate="no"><source>Hi you</source></trans-unit>',
            "<source>Hi you</source></trans-unit>",
            [("Hi you", "marked translate=no")],
        ),
        (
            '<trans-unit id="1"><source>One. Two.</source><seg-source><mrk mtype="seg" mid="1">One.'
            '</mrk> <mrk mtype="seg" mid="2">Two.</mrk></seg-source><target><mrk mtype="seg" '
            'mid="1"/></target></trans-unit>',
            '<mrk mtype="seg" mid="1">. ONE</mrk></target>',
            [("Two.", "without a segment in their target")],
        ),
        # The only segment is all of the source.
        (
            '<trans-unit id="1"><source>One two</source><target><mrk mtype="seg" mid="1"></mrk>'
            "</target></trans-unit>",
            '<target><mrk mtype="seg" mid="1">TWO ONE</mrk></target>',
            [],
        ),
        # Tags of CDATA are none beside it.
        (
            '<trans-unit id="1"><source>one <![CDATA[<b>two</b>]]> three</source></trans-unit>',
            "THREE",
            [("<b>two</b>", "in CDATA")],
        ),
    ],
)
def test_what_becomes_of_units(unit: str, written: str, skipped: list[tuple[str, str]]) -> None:
    page = (
        f'<xliff><file source-language="en" target-language=""><body>{unit}</body></file></xliff>'
    )
    translated, report = translate_content(page.encode(), "xliff", reverse_words, LANGUAGES)
    assert written in translated.decode()
    assert [(each.text, each.reason) for each in report.skipped] == skipped
    assert 'target-language="de"' in translated.decode()
    assert etree.fromstring(translated) is not None


_SEGMENT = (
    '<xliff version="1.2"><file source-language="en" target-language="de"><body>'
    '<trans-unit id="1"><source>{}</source>{}</trans-unit></body></file></xliff>'
)


def test_empty_elements_of_angular_are_pairs() -> None:
    source = (
        'Click <x id="START_LINK"/>here<x id="CLOSE_LINK"/> for <x id="INTERPOLATION"/> and '
        '<x id="START_LINK_1"/>there<x id="CLOSE_LINK"/>'
    )
    page = translate_markup(
        _SEGMENT.format(source, ""), "xliff", reverse_words, LanguageCodes("en", "de")
    )
    assert (
        '<x id="START_LINK_1"/>THERE<x id="CLOSE_LINK"/> AND FOR <x id="START_LINK"/>HERE'
        '<x id="CLOSE_LINK"/> CLICK <x id="INTERPOLATION"/></target>'
    ) in page


@pytest.mark.parametrize(
    ("target", "is_translated"),
    [
        # XLIFF 1.2, 3.2: "the item needs to be translated".
        ('<target state="needs-translation">a b</target>', True),
        ('<target state="new">a b</target>', True),
        ('<target state="new">c d</target>', False),
        ('<target state="translated">a b</target>', False),
        ("<target>a b</target>", False),
    ],
)
def test_a_copy_of_the_source_is_no_translation(target: str, is_translated: bool) -> None:
    page = _SEGMENT.format("a b", target)
    seen, written = read_texts(page, "xliff")
    assert seen == ["a b"] * is_translated
    assert (written == page) is not is_translated


@pytest.mark.parametrize("state", ["initial", "translated"])
def test_a_segment_that_begins_as_a_copy_is_translated(state: str) -> None:
    page = (
        '<xliff version="2.0" srcLang="en"><file id="f"><unit id="1"><segment state="{}">'
        "<source>a b</source><target>a b</target></segment></unit></file></xliff>"
    )
    assert read_texts(page.format(state), "xliff")[0] == ["a b"] * (state == "initial")
