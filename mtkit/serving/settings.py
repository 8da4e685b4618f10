"""The `serve` section: what `mtkit serve` allows, and how long it waits."""

from typing import Annotated, Literal

from pydantic import Field

from mtkit.recipe.section import Count, CountFromZero, Section, Strength, StrengthFromZero

LanguageCode = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,20}$")]


class Serving(Section):
    """Limits of the server, given as `--set serve.KEY=VALUE`."""

    max_characters: Count = 50_000
    """Characters of one text, and of all text in one file."""
    max_texts: Count = 1_024
    """Texts in one request."""
    max_sentences: Count = 50_000
    """Sentences of all texts of a request to `/translate`; four megabytes of prose have fewer."""
    max_body_bytes: Count = 4_000_000
    """Bytes of a request without a file."""
    max_file_bytes: CountFromZero = 20_000_000
    """Bytes of an uploaded file; 0 turns the translation of files off."""
    max_waiting_bytes: Count = 500_000_000
    """Bytes of all requests together that have come and aren't answered yet; a request beyond them
    is answered with 503. A caller has half of them."""
    max_unpacked_bytes: Count = 50_000_000
    """Bytes of all that a file holds which is an archive, as `.docx` is."""
    file_processes: Count = 2
    """Files that are read at once, each in a process of its own; others wait."""
    file_memory_mib: Annotated[int, Field(ge=256)] = 1_024
    """Memory of a process that reads a file, in MiB; a file that needs more is refused."""
    max_alternatives: Annotated[int, Field(ge=0, le=50)] = 10
    """Alternatives of a text that may be asked for."""
    max_beam_size: Annotated[int, Field(ge=1, le=1_000)] = 20
    """Beam size that `/v1/translate` may ask for."""
    requests_per_minute: CountFromZero = 0
    """Requests that a key, or an address without one, may make in a minute; a list of texts counts
    as so many. 0 for no limit. The file of keys may say otherwise for a key."""
    queue_lines: Count = 8_192
    """Lines that may wait for a model; a request beyond them is answered with 503."""
    batch_lines: Annotated[int, Field(ge=1, le=4_096)] = 64
    """Lines given to a model at once; more fill its threads better, and make others wait longer."""
    batch_characters: Count = 16_384
    """Characters given to a model at once, unless it is one line."""
    batch_seconds: Strength = 30.0
    """A batch that takes longer is given up: its process is replaced, and its lines are tried one
    by one, each in half the time. A line longer than `batch_characters` has more in proportion.
    Raise it for a large model on a slow machine."""
    batch_memory_gib: Strength = 8.0
    """Memory that a model's process may take beside what it has once the model is loaded, in GiB;
    on a CPU."""
    batch_wait_milliseconds: StrengthFromZero = 2.0
    """How long a line waits for others to share its batch."""
    request_seconds: Strength = 120.0
    """A request that takes longer is answered with 504, and its lines are taken from the queue."""
    header_seconds: Strength = 20.0
    """A connection that hasn't sent a whole request head by then is closed."""
    body_seconds: Strength = 60.0
    """A request's body must have arrived by then."""
    shutdown_seconds: Strength = 60.0
    """After SIGTERM, requests under way have so long to finish."""
    max_connections: Count = 8_192
    """Connections at once; one more is closed unread."""
    file_minutes: Strength = 30.0
    """A translated file can be downloaded for so long."""
    max_stored_bytes: Count = 500_000_000
    """Bytes of all translated files together; the oldest make room for new ones."""
    load: Literal["start", "first-use"] = "start"
    """When models are loaded."""
    memory_gib: StrengthFromZero = 0.0
    """Memory of all models together, in GiB: beyond it, a model that is idle makes room for one
    that is asked for. 0 for no limit."""
    pivot: LanguageCode | None = None
    """Language through which to translate where no model does it directly; the answer says so."""
    cors_origins: tuple[str, ...] = ("*",)
    """Origins whose pages may call the server from a browser, such as `https://cms.example.org`;
    `*` for any, as LibreTranslate has it, which is for its own routes alone. `[]` for none."""
    hosts: tuple[str, ...] = ()
    """Names that the server is reached by. Default: on this machine alone `localhost` and its
    addresses, else any."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses of reverse proxies, whose `X-Forwarded-For` and `-Proto` are believed."""
    log: Literal["text", "json", "none"] = "text"
    """Form of a line on stderr for each request; none of them holds a text or a key."""
    log_texts: bool = False
    """Whether those lines hold texts and translations too, in `json`; for debugging."""
