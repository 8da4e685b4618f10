"""All that handlers of requests need."""

from dataclasses import dataclass

from starlette.requests import Request

from mtkit.serving.access import Access
from mtkit.serving.catalogue import Catalogue
from mtkit.serving.metrics import Metrics
from mtkit.serving.settings import Serving
from mtkit.serving.stored_files import FileStore
from mtkit.serving.translate_texts import TextTranslation


@dataclass(frozen=True)
class Office:
    """A server's parts.

    Attributes:
        settings: Limits.
        catalogue: The models.
        translation: Translates with them.
        access: Lets callers in.
        files: Translated files.
        metrics: Counters.
    """

    settings: Serving
    catalogue: Catalogue
    translation: TextTranslation
    access: Access
    files: FileStore
    metrics: Metrics

    def note(self, request: Request, texts: list[str]) -> None:
        """Puts how much is asked into the log's line, and the texts only if the settings say so."""
        request.state.texts, request.state.characters = len(texts), sum(map(len, texts))
        if self.settings.log_texts:
            request.state.logged = texts
