"""Models of several languages: which way a text goes, and what the model is told."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from transformers.models.m2m_100 import tokenization_m2m_100
from transformers.models.nllb import tokenization_nllb

from mtkit import RemoteTranslator, Request, Translator
from mtkit.errors import MtkitError
from mtkit.pipeline.import_model import import_model
from mtkit.recipe.inference import Inference
from mtkit.serving.app import make_context
from mtkit.serving.model_service import ServedModel
from mtkit.serving.settings import Serving
from mtkit.serving.worker_main import answer_batch
from mtkit.text.languages import ModelLanguages

from ...public_models import ENGLISH, make_nllb
from .conftest import FakeWorker, make_model

Serve = Callable[..., TestClient]
SEVERAL = ("ace_Arab", "eng_Latn", "deu_Latn", "fra_Latn", "zho_Hans", "zho_Hant")
TAGS = ModelLanguages(target={"deu": ">>deu<<", "fra": ">>fra<<"})
GERMAN = "Der alte Mann kauft heute drei rote Äpfel auf dem Markt."


def make_several(folder: str = "m") -> ServedModel:
    pieces = {code: code for code in SEVERAL}
    return make_model(folder, "mul", "mul", ModelLanguages.of_pieces(pieces, "before"))


def asked(workers: type[FakeWorker]) -> list[tuple[str, str, str]]:
    """Returns the text and the languages of each line that models were given."""
    asks = [ask for worker in workers.started for batch in worker.batches for ask in batch]
    return [(ask.text, ask.source_language, ask.target_language) for ask in asks]


def post(client: TestClient, **body: Any) -> tuple[int, Any]:
    response = client.post("/translate", json={"q": "a", **body})
    return response.status_code, response.json()


def test_languages_have_the_codes_of_iso(serve: Serve) -> None:
    listed = serve(make_several()).get("/languages").json()
    # ISO 639-1 and BCP 47; names by CLDR.
    assert [(each["code"], each["name"]) for each in listed] == [
        ("ace-Arab", "Acehnese (Arabic)"),
        ("de", "German"),
        ("en", "English"),
        ("fr", "French"),
        ("zh", "Chinese"),
        ("zh-Hant", "Chinese (Traditional)"),
    ]
    codes = [each["code"] for each in listed]
    assert all(each["targets"] == codes for each in listed)


@pytest.mark.parametrize(
    ("source", "target", "told"),
    [
        ("en", "de", ("eng_Latn", "deu_Latn")),
        ("eng_Latn", "deu", ("eng_Latn", "deu_Latn")),
        ("EN-us", "fr_CA", ("eng_Latn", "fra_Latn")),
        ("fr", "zh-Hans", ("fra_Latn", "zho_Hans")),
        # As Weblate, LibreTranslate and Google's API call the traditional script.
        ("fr", "zh_Hant", ("fra_Latn", "zho_Hant")),
        ("fr", "zt", ("fra_Latn", "zho_Hant")),
        ("fr", "zh-TW", ("fra_Latn", "zho_Hant")),
    ],
)
def test_a_model_is_told_its_own_codes(
    serve: Serve, workers: type[FakeWorker], source: str, target: str, told: tuple[str, str]
) -> None:
    assert post(serve(make_several()), source=source, target=target) == (
        200,
        {"translatedText": "m:A"},
    )
    assert asked(workers) == [("a", *told)]


def test_lines_of_v1_name_their_languages(serve: Serve, workers: type[FakeWorker]) -> None:
    client = serve(make_several())
    lines = {"lines": ["a"]}
    found = client.post("/v1/translate", json={**lines, "source": "fr", "target": "de"}).json()
    assert (found["source"], found["target"]) == ("fr", "de")
    pair = {"pairs": [["b", "c"]]}
    scored = client.post("/v1/score", json={**pair, "source": "de", "target": "en"})
    assert scored.status_code == 200
    assert asked(workers) == [("a", "fra_Latn", "deu_Latn"), ("b", "deu_Latn", "eng_Latn")]
    for path, body, missing in (
        ("/v1/translate", {**lines, "source": "fr"}, "target"),
        ("/v1/score", {**pair, "target": "de"}, "source"),
    ):
        refused = client.post(path, json=body)
        assert refused.status_code == 400
        assert refused.json() == {"error": f"Invalid request: missing {missing} parameter"}
    [model] = client.get("/v1/models").json()["models"]
    assert model["languages"]["target"] == ["ace-Arab", "en", "de", "fr", "zh", "zh-Hant"]


def test_a_language_is_detected_among_those_of_the_models(
    serve: Serve, workers: type[FakeWorker]
) -> None:
    pytest.importorskip("py3langid")
    client = serve(make_several())
    found = post(client, q=GERMAN, source="auto", target="fr")[1]
    assert found["detectedLanguage"]["language"] == "de"
    body = {"lines": [GERMAN], "target": "fr"}
    assert client.post("/v1/translate", json=body).json()["detected"]["language"] == "de"
    assert asked(workers) == [(GERMAN, "deu_Latn", "fra_Latn")] * 2
    # Spanish isn't served; what is offered in its place is.
    served = {each["code"] for each in client.get("/languages").json()}
    spanish = client.post("/detect", json={"q": "El hombre compra tres manzanas rojas."}).json()
    assert {each["language"] for each in spanish} <= served


def test_a_client_asks_each_line_in_its_own_languages(
    serve: Serve, workers: type[FakeWorker]
) -> None:
    there = RemoteTranslator("http://localhost", source="en", target="de")
    there._lines._client = serve(make_several())  # type: ignore[attr-defined]
    lines = [Request("a"), Request("b", source_language="fr"), Request("c", target_language="zh")]
    assert [each.text for each in there.search(lines)] == ["m:A", "m:B", "m:C"]
    there.score([("d", "e"), Request("f", prefix="g", source_language="fra")])
    assert sorted(asked(workers)) == [
        ("a", "eng_Latn", "deu_Latn"),
        ("b", "fra_Latn", "deu_Latn"),
        ("c", "eng_Latn", "zho_Hans"),
        ("d", "eng_Latn", "deu_Latn"),
        ("f", "fra_Latn", "deu_Latn"),
    ]


def test_a_pivot_is_taken_only_where_no_model_goes_directly(
    serve: Serve, workers: type[FakeWorker]
) -> None:
    client = serve(make_several(), make_model("x", "hr", "en"), pivot="eng")
    assert post(client, source="fr", target="de")[1] == {"translatedText": "m:A"}
    assert post(client, source="hr", target="de")[1] == {"translatedText": "m:X:A", "pivot": "en"}
    assert asked(workers) == [
        ("a", "fra_Latn", "deu_Latn"),
        ("x:A", "eng_Latn", "deu_Latn"),
        ("a", "", ""),
    ]
    with pytest.raises(MtkitError, match=r'serve.pivot = "xx": no model has this language'):
        serve(make_several(), pivot="xx")


def test_the_first_model_of_a_direction_takes_it(serve: Serve) -> None:
    client = serve(make_model("pair"), make_several())
    assert post(client, source="en", target="de")[1] == {"translatedText": "pair:A"}
    assert post(client, source="de", target="en")[1] == {"translatedText": "m:A"}
    target = client.get("/frontend/settings").json()["language"]["target"]
    assert target == {"code": "de", "name": "German"}


def test_tags_are_languages(serve: Serve, workers: type[FakeWorker]) -> None:
    client = serve(make_model("m", "en", "de", TAGS))
    targets = {each["code"]: each["targets"] for each in client.get("/languages").json()}
    assert targets == {"de": ["de"], "en": ["de", "en", "fr"], "fr": ["fr"]}
    assert post(client, source="en", target="fr")[0] == 200
    # Nothing tells the model the source's language.
    assert asked(workers) == [("a", "", "fra")]


def test_tags_of_both_ways_are_both_ways(serve: Serve, workers: type[FakeWorker]) -> None:
    both = ModelLanguages(target={"de": ">>de<<", "en": ">>en<<"})
    client = serve(make_model("m", "en", "de", both))
    assert post(client, source="de", target="en")[0] == 200
    assert asked(workers) == [("a", "", "en")]


@pytest.mark.parametrize(
    "codes",
    [
        tokenization_nllb.FAIRSEQ_LANGUAGE_CODES,
        tokenization_m2m_100.FAIRSEQ_LANGUAGE_CODES["m2m100"],
    ],
)
def test_all_languages_of_public_models_are_served(serve: Serve, codes: list[str]) -> None:
    pieces = {code: code for code in codes}
    client = serve(make_model("m", "mul", "mul", ModelLanguages.of_pieces(pieces, "before")))
    listed = [each["code"] for each in client.get("/languages").json()]
    assert len(listed) == len(codes)
    # What Mastodon, Weblate and the page ask for by these codes.
    assert {"ar", "de", "en", "fa", "fr", "ko", "nb", "pt", "sr", "sw", "uk", "zh"} <= {*listed}


def test_a_folder_of_many_languages_translates_as_without_a_server(tmp_path: Path) -> None:
    make_nllb(tmp_path / "public")
    folder = tmp_path / "imported"
    import_model(str(tmp_path / "public"), folder)
    settings = Inference(beam_size=1, max_output_tokens=6)
    model = ServedModel.open("nllb", folder, "cpu", lambda _: settings)
    assert model.languages.describe() == "7 languages"
    translator = Translator(folder, settings=settings, device="cpu")

    class OwnProcess(FakeWorker):
        def answer(self, ask: Any) -> Any:
            [answer] = answer_batch(translator, [ask])
            return answer

    async def main() -> list[tuple[str, float]]:
        context = make_context([model], Serving(log="none"))
        service = context.catalogue.services["nllb"]
        service._take(OwnProcess(model.source))  # type: ignore[arg-type]
        translate = context.translation.translate_texts
        found = [await translate([ENGLISH[2]], "en", code) for code in ("de", "fr", "zh-Hant")]
        await context.catalogue.close()
        first = [each.lines[0][0].candidates[0] for each, _ in found]
        return [(best.text, best.log_probability) for best in first]

    wanted = []
    for code in ("deu_Latn", "fra_Latn", "zho_Hant"):
        request = Request(ENGLISH[2], source_language="eng_Latn", target_language=code)
        [best] = translator.search([request])[0].candidates
        wanted.append((best.text, best.log_probability))
    assert asyncio.run(main()) == wanted
    # Each language has a piece of its own, which the scores depend on.
    assert len({*wanted}) == 3
