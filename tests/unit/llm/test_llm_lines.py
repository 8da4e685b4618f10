"""A translator that asks a chat API, from its file to translations."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mtkit.errors import MtkitError
from mtkit.inference.request import LineError, Request
from mtkit.inference.translator import Translator
from mtkit.llm.open_llm import open_llm
from mtkit.text.glossary import Term
from tests.unit.llm.chat_server import Reply, answer, serve_chat

WORDS = {"a": "ein", "man": "Mann", "dog": "Hund", "sleeps": "schläft", "old": "alter"}


def translate(text: str) -> str:
    """Translates word by word; others stay."""
    return " ".join(WORDS.get(word.lower(), word) for word in text.split(" "))


def read_lines(body: dict[str, Any]) -> list[str]:
    """Returns the lines that a request asks for."""
    lines: list[str] = body["messages"][-1]["content"].rpartition("\n\n")[2].split("\n")
    return lines


def reply_well(body: dict[str, Any], number: int) -> Reply:
    lines = read_lines(body)
    if len(lines) == 1:
        return answer(translate(lines[0]))
    return answer("\n".join(" ".join((n, translate(t))) for n, _, t in map(split, lines)))


def split(line: str) -> tuple[str, str, str]:
    return line.partition(" ")


@pytest.fixture
def open_with(tmp_path: Path) -> Callable[..., Translator]:
    def opened(address: str, *overrides: str, **keys: object) -> Translator:
        given = {
            "url": address,
            "model": "test",
            "source_languages": ["en"],
            "target_languages": ["de"],
            "reject": ["looping"],
            **keys,
        }
        path = tmp_path / "llm.toml"
        path.write_text("\n".join(f"{key} = {write(value)}" for key, value in given.items()))
        return Translator(open_llm(path, overrides))

    return opened


def write(value: object) -> str:
    """Writes a value as TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {write(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(write, value)) + "]"
    return json.dumps(value)


@pytest.mark.parametrize("lines_per_request", [1, 3])
def test_each_line_has_its_own_translation(open_with: Any, lines_per_request: int) -> None:
    lines = [*(f"a man {number}" for number in range(20)), "", " ", "...", "old dog"]
    with serve_chat(reply_well) as (address, bodies):
        translator = open_with(address, lines_per_request=lines_per_request)
        assert translator.translate(lines) == [
            *(f"ein Mann {number}" for number in range(20)),
            *("", "", "...", "alter Hund"),
        ]
    assert len(bodies) == 21 // lines_per_request


def test_a_second_program_sends_nothing_again(open_with: Any) -> None:
    with serve_chat(reply_well) as (address, bodies):
        first = open_with(address).translate(["a man", "a dog"])
        assert open_with(address).translate(["a man", "a dog"]) == first
        assert len(bodies) == 2
        open_with(address, sampling={"temperature": 0.5}).translate(["a man"])
        assert len(bodies) == 3
        open_with(address, cache={"max_mib": 0}).translate(["a man"])
        assert len(bodies) == 4


def test_a_bad_answer_for_several_lines_is_asked_in_halves(open_with: Any) -> None:
    def reply(body: dict[str, Any], number: int) -> Reply:
        if len(read_lines(body)) > 2:
            return answer("1. everything in one line")
        return reply_well(body, number)

    lines = [f"a man {number}" for number in range(8)]
    with serve_chat(reply) as (address, bodies):
        translator = open_with(address, lines_per_request=8)
        assert translator.translate(lines) == [f"ein Mann {number}" for number in range(8)]
    assert sorted(len(read_lines(body)) for body in bodies) == [2, 2, 2, 2, 4, 4, 8]


def test_only_the_bad_line_of_a_good_answer_is_asked_again(open_with: Any) -> None:
    def reply(body: dict[str, Any], number: int) -> Reply:
        lines = read_lines(body)
        return (
            answer("1. ein Mann\n2. I'm sorry, I can't help.") if len(lines) == 2 else answer("b")
        )

    with serve_chat(reply) as (address, bodies):
        assert open_with(address, lines_per_request=2).translate(["a man", "x y"]) == [
            "ein Mann",
            "b",
        ]
    assert read_lines(bodies[1]) == ["x y"]


@pytest.mark.parametrize(("on_failure", "expected"), [("empty", ""), ("copy", "a man")])
def test_a_line_without_a_usable_answer_is_flagged(
    open_with: Any, on_failure: str, expected: str
) -> None:
    with serve_chat(lambda body, number: answer("I cannot help with that.")) as (address, bodies):
        translator = open_with(address, on_failure=on_failure, retries=2)
        (found,) = translator.search(["a man"])
    assert found.text == expected
    assert found.flags is not None
    assert [flag.name for flag in found.flags] == ["bad answer"]
    assert "refusal" in found.warnings[0].text
    assert len(bodies) == 3
    assert "1 lines without an answer" in translator.summary


def test_a_retry_says_what_was_wrong(open_with: Any) -> None:
    def reply(body: dict[str, Any], number: int) -> Reply:
        is_retry = "rejected: it is a refusal" in body["messages"][-1]["content"]
        return answer("ein Mann" if is_retry else "I can't assist.")

    with serve_chat(reply) as (address, _):
        assert open_with(address).translate("a man") == "ein Mann"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again(open_with: Any, status: int) -> None:
    def reply(body: dict[str, Any], number: int) -> Reply:
        return reply_well(body, number) if number else (status, {"Retry-After": "0.01"}, b"<html>")

    with serve_chat(reply) as (address, bodies):
        assert open_with(address).translate(["a man"]) == ["ein Mann"]
    assert len(bodies) == 2


@pytest.mark.parametrize(
    "content", [b"{", b"[" * 100_000, b"[]", b"{}", b'{"choices": []}', b"\xff"]
)
def test_an_answer_that_is_none_of_the_api_is_asked_again(open_with: Any, content: bytes) -> None:
    def reply(body: dict[str, Any], number: int) -> Reply:
        return reply_well(body, number) if number else (200, {}, content)

    with serve_chat(reply) as (address, bodies):
        limits = {"wait_seconds": 0.01}
        assert open_with(address, limits=limits).translate(["a man"]) == ["ein Mann"]
    assert len(bodies) == 2


def test_a_huge_answer_is_cut_and_asked_again(open_with: Any) -> None:
    def reply(body: dict[str, Any], number: int) -> Reply:
        return reply_well(body, number) if number else answer("x" * 5_000_000)

    with serve_chat(reply) as (address, _):
        limits = {"wait_seconds": 0.01, "answer_bytes": 100_000}
        assert open_with(address, limits=limits).translate(["a man"]) == ["ein Mann"]


def test_a_key_is_sent_and_never_shown(open_with: Any, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("SECRET_NAME", "sk-very-secret")

    def reply(body: dict[str, Any], number: int) -> Reply:
        return 401, {}, b'{"error": "bad key sk-very-secret \x1b[31m"}'

    with serve_chat(reply) as (address, _):
        translator = open_with(address, key_from="SECRET_NAME")
        with pytest.raises(MtkitError, match=r"401.*\*\*\*") as found:
            translator.translate(["a man"])
    assert "secret" not in str(found.value)
    assert "\x1b" not in str(found.value)
    for value in ("sk-very\nsecret", "sk-very-sécret"):
        monkeypatch.setenv("SECRET_NAME", value)
        with pytest.raises(MtkitError) as found:
            open_with(address, key_from="SECRET_NAME")
        assert "sk" not in str(found.value)
    monkeypatch.delenv("SECRET_NAME")
    with pytest.raises(MtkitError, match="SECRET_NAME"):
        open_with(address, key_from="SECRET_NAME")


def test_a_line_that_the_server_refuses_does_not_stop_the_others(open_with: Any) -> None:
    def reply(body: dict[str, Any], number: int) -> Reply:
        if "long" in read_lines(body)[0]:
            return 400, {}, b'{"error": "too many tokens"}'
        return reply_well(body, number)

    with serve_chat(reply) as (address, _):
        found = open_with(address).search(["a man", "long", "a dog"])
    assert [each.text for each in found] == ["ein Mann", "", "ein Hund"]
    assert "too many tokens" in found[1].warnings[0].text


@pytest.mark.parametrize(
    "reply",
    [
        (400, {}, b"no such parameter"),
        (200, {}, b'{"error": {"message": "no such parameter", "code": 502}}'),
    ],
)
def test_a_server_that_refuses_everything_ends_the_job(open_with: Any, reply: Reply) -> None:
    limits = {"attempts": 1}
    with serve_chat(lambda *_: reply) as (address, bodies):
        with pytest.raises(MtkitError, match="no such parameter"):
            open_with(address, limits=limits).translate([f"line {number}" for number in range(100)])
        assert len(bodies) < 20


def test_keys_that_a_server_refuses_are_left_out(open_with: Any) -> None:
    keys = {"omit": ["max_tokens", "temperature"], "extra": {"max_completion_tokens": 50}}
    with serve_chat(reply_well) as (address, bodies):
        open_with(address, **keys).translate(["a man"])
    assert bodies[0]["max_completion_tokens"] == 50
    assert not {"max_tokens", "temperature"} & bodies[0].keys()


def test_a_server_that_is_away_is_told(open_with: Any) -> None:
    with serve_chat(reply_well) as (address, _):
        pass
    limits = {"attempts": 2, "wait_seconds": 0.01}
    with pytest.raises(MtkitError, match="2 attempts") as found:
        open_with(address, limits=limits).translate(["a man"])
    assert "resumes from the cache" in found.value.hint


@pytest.mark.parametrize(
    ("limits", "prices"), [({"tokens": 25}, {}), ({"cost": 25.0}, {"input": 1e6, "output": 1e6})]
)
def test_limits_stop_a_job_and_the_cache_goes_on(
    open_with: Any, limits: dict[str, float], prices: dict[str, float]
) -> None:
    usage = {"prompt_tokens": 4, "completion_tokens": 6}

    def reply(body: dict[str, Any], number: int) -> Reply:
        return answer(translate(read_lines(body)[0]), usage=usage)

    lines = [f"a man {number}" for number in range(6)]
    with serve_chat(reply) as (address, bodies):
        given = {"prices": prices, "concurrent_requests": 1}
        with pytest.raises(MtkitError, match="is reached"):
            open_with(address, limits=limits, **given).translate(lines)
        assert len(bodies) == 3
        assert open_with(address, **given).translate(lines)[5] == "ein Mann 5"
        assert len(bodies) == 6


@pytest.mark.parametrize("count", [-1, 10**4_000, 1.5, "5", None, [1]])
def test_counts_that_a_server_can_t_mean_are_estimated(open_with: Any, count: object) -> None:
    usage = {"prompt_tokens": count, "completion_tokens": count}
    with serve_chat(lambda body, number: answer("x" * 40, usage=usage)) as (address, _):
        translator = open_with(address, prices={"input": 1.0}, limits={"cost": 5.0}, reject=[])
        translator.translate(["a man"])
    assert " 10 out" in translator.summary


def test_terms_are_in_the_prompt_and_reported(open_with: Any) -> None:
    def reply(body: dict[str, Any], number: int) -> Reply:
        prompt = body["messages"][-1]["content"]
        is_told_again = "rejected" in prompt
        assert '"dog" is "Köter"' in prompt
        return answer("ein Köter" if is_told_again else "ein Hund")

    terms = (Term("dog", "Köter"), Term("cat", "Katze"))
    with serve_chat(reply) as (address, _):
        (found,) = open_with(address).search([Request("a dog", glossary=terms)])
    assert found.text == "ein Köter"
    assert found.terms is not None
    assert [(term.source, term.use) for term in found.terms] == [("dog", "used")]


def test_protected_pieces_are_asked_for_again_and_then_reported(open_with: Any) -> None:
    def reply(body: dict[str, Any], number: int) -> Reply:
        return answer("{name} schläft" if "is missing" in str(body) else "Name schläft")

    with serve_chat(reply) as (address, _):
        translator = open_with(address, "inference.protect={}")
        (found,) = translator.search(["{name} sleeps"])
    assert found.text == "{name} schläft"
    with serve_chat(lambda body, number: answer("Name schläft")) as (address, _):
        translator = open_with(address, "inference.protect={}")
        (found,) = translator.search(["{name} sleeps"])
    assert found.text == "Name schläft"
    assert found.protection is not None
    assert found.protection.lost == ("{name}",)
    assert "{name}" in found.warnings[0].text


def test_sentences_of_a_line_are_asked_one_by_one(open_with: Any) -> None:
    with serve_chat(reply_well) as (address, bodies):
        translator = open_with(address, "inference.paragraphs={}")
        (found,) = translator.search(["Old man.  A dog sleeps."])
    assert found.text == "alter man.  ein Hund sleeps."
    assert len(found.sentences) == 2
    assert sorted(map(read_lines, bodies)) == [["A dog sleeps."], ["Old man."]]


def test_lines_before_a_request_are_shown(open_with: Any) -> None:
    with serve_chat(lambda body, number: answer("x")) as (address, bodies):
        open_with(address, lines_before=2, concurrent_requests=1).translate(["a", "b", "c", "d"])
    shown = [body["messages"][0]["content"].split("not to be translated: ")[1:] for body in bodies]
    assert [each[0].split("\n")[0] if each else "" for each in shown] == ["", "a", "a b", "b c"]


def test_languages_of_requests_are_named(open_with: Any) -> None:
    languages = {"source_languages": ["en", "fr"], "target_languages": ["de", "zh_Hant"]}
    extra = {"chat_template_kwargs": {"target_lang_code": "{{ target_code }}"}}
    with serve_chat(lambda body, number: answer("x")) as (address, bodies):
        translator = open_with(address, **languages, extra=extra)
        translator.search([Request("Un homme", source_language="fra", target_language="zh-TW")])
        with pytest.raises(LineError, match="doesn't read 'it'"):
            translator.search([Request("Uno", source_language="it")])
    assert "from French to Chinese (Traditional)" in bodies[0]["messages"][0]["content"]
    assert bodies[0]["chat_template_kwargs"] == {"target_lang_code": "zh_Hant"}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"lines_per_requst": 3}, "lines_per_request"),
        ({"url": "ftp://x"}, "url"),
        ({"url": "http://me:secret@host/v1"}, "key_from"),
        ({"prompt": "no variable"}, "text"),
        ({"prompt": "{{ text }} {{ missing }}"}, "missing"),
        ({"prompt": "{{ text "}, "prompt"),
        ({"prompt": "{{ text.__class__.__mro__ }}"}, "unsafe"),
    ],
)
def test_faults_of_the_file_are_found_before_any_work(
    open_with: Any, keys: dict[str, object], message: str
) -> None:
    with pytest.raises(MtkitError, match=message) as found:
        open_with("http://127.0.0.1:1/v1", **keys)
    assert "llm.toml" in str(found.value)


def test_a_recipe_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "mtkit.toml"
    path.write_text('name = "x"\n[data]\nsource_language = "en"\n')
    with pytest.raises(MtkitError, match="is a recipe") as found:
        open_llm(path)
    assert "--recipe" in found.value.hint


@pytest.mark.parametrize("override", ["inference.beam_size=5", "inference.n_best=2"])
def test_settings_of_a_search_are_refused(open_with: Any, override: str) -> None:
    with pytest.raises(MtkitError, match="no such setting"):
        open_with("http://127.0.0.1:1/v1", override)


def test_what_a_model_alone_can_do_is_refused(open_with: Any) -> None:
    translator = open_with("http://127.0.0.1:1/v1")
    with pytest.raises(LineError, match="prefix"):
        translator.search([Request("a man", prefix="ein")])
    with pytest.raises(LineError, match="score"):
        translator.score([("a man", "ein Mann")])
