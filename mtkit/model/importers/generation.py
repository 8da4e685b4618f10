"""transformers' decoding settings, `generation_config.json`, in mtkit's terms."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mtkit.errors import MtkitError
from mtkit.foreign_files import describe_fault
from mtkit.model.importers.source_folder import SourceFolder
from mtkit.recipe.inference import Inference, LengthPenalty

FILE = "generation_config.json"
_MAX_BYTES = 1 << 20
_MAX_SOURCE_TOKENS = 100_000


class Generation(BaseModel):
    """The keys that a translator's outputs depend on; the defaults are transformers'."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    origin: str
    num_beams: int = Field(1, ge=1, le=1_000)
    length_penalty: float = Field(1.0, ge=0.0, le=10.0)
    max_length: int = Field(20, ge=2)
    min_length: int = Field(0, ge=0)
    no_repeat_ngram_size: int = Field(0, ge=0)
    renormalize_logits: bool = False
    bad_words_ids: list[list[int]] | None = None
    forced_bos_token_id: int | None = None
    early_stopping: bool | Literal["never"] = False
    do_sample: bool = False
    num_beam_groups: int = 1
    repetition_penalty: float = 1.0
    encoder_no_repeat_ngram_size: int = 0
    diversity_penalty: float = 0.0

    @classmethod
    def read(cls, folder: SourceFolder, config: dict[str, object]) -> Self:
        """Returns a folder's settings; older folders have them in config.json.

        Raises:
            MtkitError: The file is damaged, or asks for what mtkit doesn't have.
        """
        found = folder.read_json(FILE, max_bytes=_MAX_BYTES)
        origin = f"{folder.origin}/{FILE if found else 'config.json'}"
        told = {key: value for key, value in (found or config).items() if value is not None}
        try:
            read = cls.model_validate({**told, "origin": origin})
        except ValidationError as error:
            raise MtkitError(f"{origin}: {describe_fault(error)}") from error
        read._check_search()
        return read

    def _check_search(self) -> None:
        wanted = {
            "do_sample": False,
            "num_beam_groups": 1,
            "repetition_penalty": 1.0,
            "encoder_no_repeat_ngram_size": 0,
            "diversity_penalty": 0.0,
        }
        for key, value in wanted.items():
            if getattr(self, key) != value:
                raise MtkitError(
                    f"{self.origin}: {key} = {getattr(self, key)}, but mtkit's search has no such "
                    "thing",
                    f"set it to {str(value).lower()} if the model is to be used without it",
                )

    def find_hidden(self, never_written: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the rows that take no probability: those of bad words, if it is shared out.

        Args:
            never_written: Rows that mtkit never writes: they may be bad words in any case.

        Raises:
            MtkitError: Others are bad words.
        """
        for word in self.bad_words_ids or []:
            if len(word) != 1 or not (self.renormalize_logits or word[0] in never_written):
                raise MtkitError(
                    f"{self.origin}: bad_words_ids has {word[:10]}, but mtkit can forbid padding "
                    "alone, and other single pieces where renormalize_logits is true",
                    "remove it if the model is to be used without it",
                )
        if not self.renormalize_logits:
            return ()
        return tuple(word[0] for word in self.bad_words_ids or [])

    def to_settings(self, max_positions: int) -> Inference:
        """Returns the decoding defaults of a model folder.

        Args:
            max_positions: Tokens of a source at most.
        """
        # Their maximum counts the decoder's first input.
        max_tokens = min(self.max_length - 1, 100_000)
        return Inference(
            beam_size=self.num_beams,
            length_penalty=LengthPenalty(kind="power", alpha=self.length_penalty),
            # Theirs counts the decoder's first input.
            min_length=max(0, self.min_length - 1),
            no_repeat_ngram=self.no_repeat_ngram_size or None,
            # Where theirs stops at as many outputs as beams, ours still looks at the open ones.
            stop_margin=max_tokens if self.early_stopping == "never" else 0,
            max_output_tokens=max_tokens,
            max_extra_tokens=min(max_tokens, 10_000),
            max_source_tokens=max(8, min(max_positions, _MAX_SOURCE_TOKENS)),
        )
