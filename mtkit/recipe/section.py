"""What every section of a recipe has in common."""

from pydantic import BaseModel, ConfigDict


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
