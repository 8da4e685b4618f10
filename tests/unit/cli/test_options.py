"""Every option and every key, so that growth is a reviewed diff.

fairseq had 727 options and OpenNMT-py 230. A command has at most 10; the rest is recipe.
"""

from typing import Any

import pytest
import typer.main

from mtkit.cli.app import app
from mtkit.recipe import Recipe

RUN = ["--recipe", "--workspace", "--set"]
LAUNCHING = ["--nodes", "--rdzv", "--max-restarts"]

OPTIONS = {
    "init": ["recipe", "--student-of"],
    "split": ["files", "--from", "--to", "--output", "--columns", "--dev", "--test", "--by"],
    "prepare": [*RUN, "--check", "--workers"],
    "plan": [*RUN, "--gpus", "--hardware", "--share", "--json"],
    "train": [*RUN, "--gpus", "--processes", *LAUNCHING, "--dry-run"],
    "average": [*RUN, "--last", "--best", "--spaced", "--select", "--device"],
    "calibrate": [
        "labels",
        *RUN,
        "--model",
        "--output",
        "--device",
        "--from",
        "--to",
    ],
    "align": [*RUN, "--model", "--input", "--apart", "--json"],
    "attend": [
        *RUN,
        "--model",
        "--device",
        "--input",
        "--page",
        "--picture",
        "--head",
        "--numbers",
    ],
    "translate": [
        "file",
        *RUN,
        "--model",
        "--device",
        "--from",
        "--to",
        "--input",
        "--output",
        "--glossary",
        "--errors",
        "--score-only",
        "--check",
        "--json",
    ],
    "import": ["source", "--output", "--keep-pieces-of", "--encoder"],
    "export": [*RUN, "--model", "--output", "--format", "--quantization", "--lines"],
    "serve": [
        *RUN,
        "--model",
        "--device",
        "--host",
        "--port",
        "--keys",
        "--new-key",
        "--without-keys",
    ],
    "score": [
        *RUN,
        "--hypothesis",
        "--model",
        "--reference",
        "--source",
        "--test-set",
        "--glossary",
        "--report",
        "--runs",
        "--against",
        "--json",
        "--device",
    ],
    "tune": [*RUN, "--device"],
    "run": [*RUN, "--gpus", "--processes"],
}


KEYS = {
    "": "name seed objective data tokenizer model training inference evaluation cluster",
    "cluster": "address part skip_bad_blocks",
    "data": "language source_language target_language block_tokens data_root train dev parsing "
    "cleaning augment word_aligner",
    "data.train[FileTrainingCorpus]": "tag source target translated_by synthesis name weight "
    "max_pairs skip alignments",
    "data.train[OneSideTrainingCorpus]": "tag source target translated_by synthesis name weight "
    "max_pairs skip",
    "data.train[PairedFileTrainingCorpus]": "tag path source_column target_column translated_by "
    "synthesis name weight "
    "max_pairs skip",
    "data.train[HubTrainingCorpus]": "tag dataset configuration split source_column target_column "
    "translated_by synthesis name weight max_pairs skip",
    "data.train[PhrasebookTrainingCorpus]": "tag builtin sentences translated_by synthesis name "
    "weight max_pairs skip",
    "data.train[TextTrainingCorpus]": "text documents name weight max_pairs skip",
    "data.train[TextTableTrainingCorpus]": "path text_column document_column name weight "
    "max_pairs skip",
    "data.train[LabelledTrainingCorpus]": "path text_column second_column label_column name weight "
    "max_pairs skip",
    "data.train[PlantedTrainingCorpus]": "source target planted_faults name weight max_pairs skip",
    "data.train[TreeTrainingCorpus]": "trees name weight max_pairs skip",
    **{
        f"data.train[{kind}TrainingCorpus].synthesis{inside}": keys
        for kind in ("File", "OneSide", "PairedFile", "Hub", "Phrasebook")
        for inside, keys in (
            (
                "",
                "beam_size sampling closest_to_reference rounds checked_by min_round_trip keep "
                "drop_flagged",
            ),
            (".sampling", "temperature top_k top_p epsilon seed"),
        )
    },
    "data.dev[FileCorpus]": "tag source target",
    "data.dev[PairedFileCorpus]": "tag path source_column target_column",
    "data.dev[HubCorpus]": "tag dataset configuration split source_column target_column",
    "data.dev[HeldOutPhrasebook]": "tag builtin sentences",
    "data.dev[PublishedCorpus]": "tag sacrebleu",
    "data.dev[TextCorpus]": "text documents",
    "data.dev[TextTableCorpus]": "path text_column document_column",
    "data.dev[LabelledCorpus]": "path text_column second_column label_column",
    "data.dev[PlantedCorpus]": "source target planted_faults",
    "data.dev[TreeCorpus]": "trees",
    "data.parsing": "linearization",
    "data.cleaning": "max_tokens encoding length length_ratio identical letters script numbers "
    "urls repetition language overlap duplicates selection",
    "data.cleaning.encoding": "enabled invalid_utf8",
    "data.cleaning.length": "enabled min_characters max_characters",
    "data.cleaning.length_ratio": "enabled max_ratio smoothing",
    "data.cleaning.identical": "enabled",
    "data.cleaning.letters": "enabled min_share",
    "data.cleaning.script": "enabled min_share source target",
    "data.cleaning.numbers": "enabled min_value min_numbers min_match",
    "data.cleaning.urls": "enabled min_match",
    "data.cleaning.repetition": "enabled max_repeats",
    "data.cleaning.language": "enabled min_characters min_confidence candidates",
    "data.cleaning.overlap": "enabled min_letters",
    "data.cleaning.duplicates": "enabled by",
    "data.cleaning.selection": "in_domain general in_domain_source general_source in_domain_target "
    "general_target classifier label keep max_difference min_probability",
    "data.augment": "placeholders casing typos missing_punctuation joined terms",
    "data.augment.placeholders": "rate num_symbols",
    "data.augment.casing": "upper title lower",
    "data.augment.typos": "rate words",
    "data.augment.missing_punctuation": "rate sides",
    "data.augment.joined": "rate max_sentences",
    "data.augment.terms": "dictionary rate max_terms masked invented",
    "tokenizer": "kind vocab_size joint normalization punctuation character_coverage "
    "split_by_unicode_script split_by_number byte_fallback user_symbols max_training_sentences "
    "pretrained sampling",
    "tokenizer.pretrained": "source target",
    "tokenizer.sampling": "alpha max_growth",
    "model": "architecture num_encoder_layers num_decoder_layers d_model d_ff num_heads d_key "
    "d_value attention_window norm activation positions max_positions sinusoids first_position "
    "tied_embeddings scale_embeddings embedding_norm output_bias initial_std norm_epsilon "
    "dropout attention_dropout activation_dropout",
    "training": "max_steps batch_tokens length_groups micro_batch_tokens processes stages "
    "label_smoothing masking denoising classification precision tf32 cuda_graphs recompute shard "
    "optimizer schedule "
    "clipping r_drop early_stopping moving_average recovery start_from freeze lora "
    "guided_alignment checkpoint_every checkpoint_minutes keep_last "
    "keep_best keep_every keep_minutes validation averaging log_every log_digests trackers "
    "stuck_after_seconds",
    "training.stages": "steps weights",
    "training.r_drop": "alpha",
    "training.optimizer": "beta1 beta2 epsilon weight_decay",
    "training.schedule[PaperSchedule]": "kind warmup_steps factor",
    "training.schedule[InverseSquareRootSchedule]": "kind peak warmup_steps",
    "training.schedule[CosineSchedule]": "kind peak warmup_steps final",
    "training.schedule[LinearSchedule]": "kind peak warmup_steps final",
    "training.schedule[ConstantSchedule]": "kind peak warmup_steps",
    "training.masking": "share mask random next_sentence short_tokens short_updates",
    "training.denoising": "share mean_span",
    "training.classification": "kind auxiliary",
    "training.clipping": "max_norm",
    "training.early_stopping": "patience",
    "training.guided_alignment": "weight layer head at",
    "training.lora": "rank alpha maps dropout train_embeddings release",
    "training.moving_average": "decay",
    "training.recovery": "max_skipped rate_factor max_returns",
    "training.start_from": "model encoder decoder vocabulary",
    "training.validation": "metric beam_size num_samples",
    "training.averaging": "choose num_checkpoints if_worse",
    "inference": "engine precision allow_int8 beam_size n_best length_penalty coverage_penalty "
    "stop_margin min_length no_repeat_ngram sampling rerank fusion glossary alignments flags "
    "quality protect protect_strings paragraphs max_extra_tokens max_output_tokens "
    "max_source_tokens batch_tokens processes",
    "inference.flags": "names max_copied min_confidence min_letters max_repeats length_ratio "
    "max_ratio smoothing max_other_numbers max_other_addresses min_log_probability min_coverage",
    "inference.quality": "path risk confidence reverse metric samples",
    "inference.length_penalty": "kind alpha",
    "inference.fusion": "model weight",
    "inference.glossary": "path way",
    "inference.protect": "urls emails placeholders paths versions options numbers min_number "
    "patterns ways beam_size",
    "inference.paragraphs": "language",
    "inference.sampling": "temperature top_k top_p epsilon seed",
    "inference.rerank": "metric candidates aggregate prune utility_weight translator_weight models",
    "inference.rerank.models": "path weight",
    "evaluation": "test_sets metrics tokenize smooth lowercase significance paper_bleu language "
    "glossary precision origins training_text",
    "evaluation.test_sets[FileTestSet]": "tag source target name",
    "evaluation.test_sets[PairedFileTestSet]": "tag path source_column target_column name",
    "evaluation.test_sets[HubTestSet]": "tag dataset configuration split source_column "
    "target_column name",
    "evaluation.test_sets[PhrasebookTestSet]": "tag builtin sentences name",
    "evaluation.test_sets[PublishedTestSet]": "tag sacrebleu name",
    "evaluation.test_sets[TextTestSet]": "text documents name",
    "evaluation.test_sets[TextTableTestSet]": "path text_column document_column name",
    "evaluation.test_sets[LabelledTestSet]": "path text_column second_column label_column name",
    "evaluation.test_sets[PlantedTestSet]": "source target planted_faults name",
    "evaluation.test_sets[TreeTestSet]": "trees name",
    "evaluation.significance": "test resamples seed confidence difference",
}


def list_commands() -> dict[str, Any]:
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return commands


def list_keys() -> dict[str, str]:
    """Returns the keys of every section in the JSON schema of a recipe, as `KEYS` writes them."""
    schema = Recipe.model_json_schema()
    found: dict[str, str] = {}

    def walk(section: dict[str, Any], place: str) -> None:
        found[place] = " ".join(section["properties"])
        for name, field in section["properties"].items():
            entry = field.get("items", field)
            options = entry.get("oneOf", []) + entry.get("anyOf", []) or [entry]
            options = [option.get("items", option) for option in options]
            kinds = [option["$ref"].rsplit("/", 1)[1] for option in options if "$ref" in option]
            for kind in kinds:
                key = f"{place}.{name}" if place else name
                walk(schema["$defs"][kind], f"{key}[{kind}]" if len(kinds) > 1 else key)

    walk(schema, "")
    return found


def test_every_option_of_every_command() -> None:
    found = {
        name: [
            next((word for word in parameter.opts if word.startswith("--")), parameter.name)
            for parameter in command.params
            if parameter.name != "help"
        ]
        for name, command in list_commands().items()
    }
    assert found == OPTIONS


def test_no_command_has_more_than_ten_options() -> None:
    counts = {
        name: sum(option.startswith("--") for option in options)
        for name, options in OPTIONS.items()
    }
    # Beside the ten: what people type daily (--from, --to, --output, --glossary), and --check,
    # which tells the cost before money is spent.
    assert counts.pop("translate") <= 15
    # Systems are files of translations, models, or the runs of a method.
    assert counts.pop("score") <= 14
    assert max(counts.values()) <= 10


def test_every_recipe_key() -> None:
    assert list_keys() == KEYS


@pytest.mark.parametrize("name", list(OPTIONS))
def test_every_option_is_explained_in_two_sentences_at_most(name: str) -> None:
    command = list_commands()[name]
    assert command.help
    for parameter in command.params:
        if parameter.name != "help":
            assert parameter.help.endswith(".")
            # The second says what is taken by default, or what else the option does.
            assert parameter.help.count(". ") <= 1
