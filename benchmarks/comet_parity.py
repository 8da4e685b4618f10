"""Compares imported COMET metrics with unbabel-comet's own classes, random weights, three sizes.

    python -m venv comet && comet/bin/pip install unbabel-comet
    comet/bin/python benchmarks/comet_parity.py write /tmp/metrics
    python benchmarks/comet_parity.py compare /tmp/metrics

The first writes published folders with Lightning's checkpoints, and their scores in fp32; the
second imports them and prints the largest difference of each from mtkit's scores.
"""

import json
import random
import sys
from pathlib import Path

SIZES = {
    "tiny": (32, 2, 4, 64, 66),
    "small": (256, 6, 8, 1024, 514),
    "base": (768, 12, 12, 3072, 514),
}
"""Width, layers, heads, inner width, positions."""
ESTIMATOR = {"hidden_sizes": [96, 48], "layer_norm": False, "layer_transformation": "sparsemax"}
KINDS = {
    "regression": ("RegressionMetric", "regression_metric", ESTIMATOR),
    "normalized": (
        "RegressionMetric",
        "regression_metric",
        {**ESTIMATOR, "layer_norm": True, "layer_transformation": "softmax", "pool": "max"},
    ),
    "one-layer": ("RegressionMetric", "regression_metric", {**ESTIMATOR, "layer": 1}),
    "referenceless": ("ReferencelessRegression", "referenceless_regression_metric", ESTIMATOR),
    "kiwi": (
        "UnifiedMetric",
        "unified_metric",
        {**ESTIMATOR, "input_segments": ["mt", "src"], "word_level_training": True},
    ),
    "kiwi-xl": (
        "UnifiedMetric",
        "unified_metric",
        {**ESTIMATOR, "input_segments": ["mt", "src"], "encoder_model": "XLM-RoBERTa-XL"},
    ),
    "unified": ("UnifiedMetric", "unified_metric", {**ESTIMATOR, "final_activation": "Sigmoid"}),
}
WORDS = "der die das und ist nicht mit für the of and in to is that with Größe 12,5 % ﬁ ½ 日本語 😀"


def make_texts(kind: str = "", number: int = 64) -> list[dict[str, str]]:
    """Returns rows of texts: short and long, an empty one, special tokens, odd spaces."""
    generator = random.Random(1)
    words = [*WORDS.split(), "</s>", "\u3000", "  ", "\t"]
    # With tags for words, unbabel-comet fails on it.
    words += [] if kind == "kiwi" else ["<pad>"]

    def draw() -> str:
        length = generator.choice([0, 1, 5, 20, 40, 300])
        return " ".join(generator.choice(words) for _ in range(length)).strip()

    return [{name: draw() for name in ("src", "mt", "ref")} for _ in range(number)]


def write_encoder(
    folder: Path,
    size: tuple[int, int, int, int, int],
    lines: list[str],
    *,
    is_xl: bool = False,
    num_pieces: int = 200,
) -> None:
    """Writes an encoder's config and tokenizer, for the narrow ones as a SentencePiece model."""
    import sentencepiece  # noqa: PLC0415
    from transformers import (  # noqa: PLC0415
        XLMRobertaConfig,
        XLMRobertaTokenizerFast,
        XLMRobertaXLConfig,
    )

    folder.mkdir(parents=True)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_prefix=str(folder / "sentencepiece.bpe"),
        vocab_size=num_pieces,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    (folder / "sentencepiece.bpe.vocab").unlink()
    tokenizer = XLMRobertaTokenizerFast(str(folder / "sentencepiece.bpe.model"))
    width, num_layers, num_heads, inner, positions = size
    if width > 32:
        tokenizer.save_pretrained(folder)
        (folder / "sentencepiece.bpe.model").unlink()
    kind = XLMRobertaXLConfig if is_xl else XLMRobertaConfig
    kind(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=num_layers,
        num_attention_heads=num_heads,
        intermediate_size=inner,
        max_position_embeddings=positions,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
    ).save_pretrained(folder)


def write_metric(folder: Path, kind: str, **changes: object) -> None:
    """Writes a metric with random weights in its published form, for the encoder in its folder."""
    import comet.models  # noqa: PLC0415
    import pytorch_lightning  # noqa: PLC0415
    import torch  # noqa: PLC0415
    import yaml  # noqa: PLC0415

    name, identifier, keys = KINDS[kind]
    own = {"pretrained_model": str(folder / "encoder"), **keys, **changes}
    layers = {"word_layer": 1} if "word_level_training" in keys else {}
    loading = {"load_pretrained_weights": False, "local_files_only": True}
    metric = getattr(comet.models, name)(**own, **layers, **loading)
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in metric.parameters():
            scale = weight.shape[-1] ** -0.5 if weight.dim() > 1 else 0.1
            if not (weight.dim() == 1 and (weight == 1.0).all()):
                weight.copy_(torch.randn_like(weight) * scale)
    (folder / "checkpoints").mkdir()
    trainer = pytorch_lightning.Trainer(logger=False, accelerator="cpu")
    trainer.strategy.connect(metric)
    path = folder / "checkpoints" / "model.ckpt"
    trainer.save_checkpoint(path)
    facts = {"class_identifier": identifier, **own}
    (folder / "hparams.yaml").write_text(yaml.safe_dump(facts), "utf-8")


def write_scores(folder: Path, kind: str) -> None:
    """Writes unbabel-comet's scores of a published metric."""
    import comet.models  # noqa: PLC0415

    path = folder / "checkpoints" / "model.ckpt"
    loaded = comet.models.load_from_checkpoint(str(path), local_files_only=True)
    scores = loaded.predict(make_texts(kind), batch_size=8, gpus=0, progress_bar=False)
    (folder / "scores.json").write_text(json.dumps(scores.scores), "utf-8")


def write(root: Path) -> None:
    lines = [text for row in make_texts() for text in row.values() if text]
    for name, size in SIZES.items():
        for kind in KINDS:
            folder = root / f"{name}-{kind}"
            write_encoder(folder / "encoder", size, lines, is_xl=kind == "kiwi-xl")
            write_metric(folder, kind)
            write_scores(folder, kind)


def compare(root: Path) -> None:
    from mtkit.inference.learned_metric import open_metric  # noqa: PLC0415
    from mtkit.pipeline.import_model import import_model  # noqa: PLC0415

    print(
        "| metric | scores from | to | largest difference fp32 | bf16 |\n|---|---:|---:|---:|---:|"
    )
    for folder in sorted(path for path in root.iterdir() if (path / "scores.json").exists()):
        imported = root / "imported" / folder.name
        if not imported.exists():
            import_model(str(folder), imported, encoder=str(folder / "encoder"))
        texts = make_texts(folder.name.partition("-")[2])
        rows = [(row["src"], row["mt"], row["ref"]) for row in texts]
        expected = json.loads((folder / "scores.json").read_text("utf-8"))
        differences = []
        # On a CPU without bf16's products the widest ones would take long in it.
        for precision in ("fp32",) if folder.name.startswith("base") else ("fp32", "bf16"):
            found = open_metric(str(imported), precision, "cpu").score(rows)
            pairs = zip(expected, found, strict=True)
            differences.append(max(abs(one - other) for one, other in pairs))
        shown = " | ".join(f"{each:.1e}" for each in differences)
        print(
            f"| {folder.name} | {min(expected):.3f} | {max(expected):.3f} | {shown} |", flush=True
        )


if __name__ == "__main__":
    {"write": write, "compare": compare}[sys.argv[1]](Path(sys.argv[2]))
