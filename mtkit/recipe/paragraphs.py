"""The `inference.paragraphs` section: lines of several sentences."""

from typing import Annotated

from pydantic import Field

from mtkit.recipe.section import Section


class Paragraphs(Section):
    """Splits a line into sentences, translates each, and joins them in order.

    The space between two sentences stays as it is, unless only one of the two languages puts a
    space there. A line of one sentence is translated as without this section.
    """

    language: Annotated[str, Field(max_length=40)] = ""
    """Code of the language whose rules find the sentences; by default the line's. A language that
    the package sentencex has no rules for gets those of a related one, else of English."""
