"""Moses' punctuation normalisation, by sacremoses."""

import re
from collections.abc import Callable, Sequence

from mtkit.errors import MtkitError

_TOUCHED = re.compile(r"[\r()`´„“”–—‘’‚…«»\u00a0\"]| [ :;%]|''|^\s|\s$")
"""What some rule looks for. A line without any of it stays as it is, and needn't go through thirty
substitutions, which take 50 microseconds."""


def punctuation_normalizer(language: str) -> Callable[[Sequence[str]], list[str]]:
    """Returns a function that normalises lines of one language: quotes, dashes, spaces.

    The rules are those of Moses' normalize-punctuation.perl, some of which depend on the language.

    Raises:
        MtkitError: sacremoses isn't installed.
    """
    try:
        # Imported here: an extra.
        from sacremoses import MosesPunctNormalizer  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MtkitError(
            'tokenizer.punctuation = "moses" needs the package sacremoses',
            "pip install 'mtkit[punctuation]'",
        ) from error
    normalize = MosesPunctNormalizer(
        lang=language.replace("_", "-").split("-")[0].lower()
    ).normalize

    def normalize_lines(lines: Sequence[str]) -> list[str]:
        return [normalize(line) if _TOUCHED.search(line) else line for line in lines]

    return normalize_lines
