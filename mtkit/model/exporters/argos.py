"""A translator as a package of Argos Translate, which LibreTranslate uses.

A zip file of one folder: metadata.json, CTranslate2's files in model/, sentencepiece.model for both
languages, README.md. Argos adds no `</s>` to a source, so CTranslate2 is configured to add it.
"""

import zipfile
from collections.abc import Sequence
from pathlib import Path

import sentencepiece

from mtkit.errors import MtkitError
from mtkit.files import as_json_text, read_json
from mtkit.model.config import CONFIG_FILE, ModelConfig, check_translates
from mtkit.text.arrange_pieces import leave_out_unknown
from mtkit.text.letters import name_language
from mtkit.text.token_ids import UNK
from mtkit.text.tokenizer import SubwordTokenizer

SUFFIX = ".argosmodel"
_PACKAGE_VERSION, _ARGOS_VERSION = "1.0", "1.9"
_MAX_CONFIG_BYTES = 1 << 20
_UNDETERMINED = "und"
_SPACE = "▁"


def check_packable(config: ModelConfig, tokenizer: SubwordTokenizer) -> None:
    """Checks that Argos Translate can run a translator; the error lists all reasons."""
    check_translates(config, "export for Argos Translate")
    faults = []
    if tokenizer.punctuation is not None:
        faults.append("tokenizer.punctuation, since it normalises nothing")
    if tokenizer.tags:
        faults.append(f"the tag {tokenizer.tags[0]}, since it adds nothing before a source")
    if _UNDETERMINED in (config.source_language, config.target_language):
        faults.append("languages that aren't known (config.json: source_language, target_language)")
    if faults:
        raise MtkitError(f"{config.recipe}: Argos Translate can't run it: " + "; ".join(faults))


def write_package(
    path: Path, engine_folder: Path, config: ModelConfig, tokenizer: SubwordTokenizer, card: str
) -> None:
    """Writes a package from CTranslate2's files; `card` is its README.md."""
    source, target = config.source_language, config.target_language
    metadata = {
        "package_version": _PACKAGE_VERSION,
        "argos_version": _ARGOS_VERSION,
        "type": "translate",
        "from_code": source,
        "from_name": name_language(source),
        "to_code": target,
        "to_name": name_language(target),
        "links": [],
    }
    top = f"translate-{source}_{target}"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr(f"{top}/metadata.json", as_json_text(metadata))
        package.writestr(f"{top}/README.md", card)
        package.writestr(f"{top}/sentencepiece.model", find_model(tokenizer))
        for file in sorted(engine_folder.iterdir()):
            if file.name == CONFIG_FILE:
                content = read_json(file, max_bytes=_MAX_CONFIG_BYTES)
                package.writestr(
                    f"{top}/model/{file.name}", as_json_text({**content, "add_source_eos": True})
                )
            else:
                package.write(file, f"{top}/model/{file.name}")


def find_model(tokenizer: SubwordTokenizer) -> bytes:
    """Returns the SentencePiece model for sources, in which pieces without an id are left out."""
    model = tokenizer.models[0]
    return leave_out_unknown(model) if tokenizer.looks_up_unknown else model


def check_pieces(
    tokenizer: SubwordTokenizer, lines: Sequence[str], outputs: Sequence[Sequence[int]]
) -> None:
    """Checks that Argos's model segments text and joins outputs as the tokenizer does."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=find_model(tokenizer))
    source, target = tokenizer.source_vocabulary, tokenizer.target_vocabulary
    for line, tokens in zip(lines, tokenizer.encode_source(lines), strict=True):
        found = [source.ids.get(piece, UNK) for piece in processor.encode(line, out_type=str)]
        if found != tokens[:-1]:
            raise MtkitError(f"Argos Translate would split a line into other tokens: '{line[:80]}'")
    for output in outputs:
        pieces = [target.pieces[token] for token in output if token >= UNK + 3 or token == UNK]
        joined = processor.decode_pieces(pieces).replace(_SPACE, " ").lstrip()
        expected = tokenizer.decode_target(output)
        if UNK not in output and joined != expected:
            raise MtkitError(
                f"Argos Translate would join an output differently: '{joined[:80]}', expected "
                f"'{expected[:80]}'",
                "train one tokenizer for both languages: tokenizer.joint = true",
            )
