"""What every section of a recipe has in common."""

from pydantic import BaseModel, ConfigDict

_SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")


def refuse_special(symbol: str) -> str:
    """Returns a symbol that can be one piece of a vocabulary.

    Raises:
        ValueError: It is a special piece already, or holds a space.
    """
    if symbol in _SPECIAL_PIECES:
        raise ValueError(f"{symbol} is a special piece of every vocabulary: take another name")
    if any(character.isspace() for character in symbol):
        raise ValueError(f"{symbol!r} holds a space, and no piece spans two words")
    return symbol


class Section(BaseModel):
    """A frozen set of keys that refuses unknown ones; the docstring under a key documents it."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        protected_namespaces=(),
    )
