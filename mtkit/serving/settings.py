"""The `serve` section: what `mtkit serve` allows, and how long it waits."""

from typing import Annotated, Literal

from pydantic import Field

from mtkit.recipe.section import Count, CountFromZero, Section, Strength, StrengthFromZero

LanguageCode = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,20}$")]


class Serving(Section):
    """Limits of the server, given as `--set serve.KEY=VALUE`."""

    max_characters: Count = 50_000
    """Maximum characters of one text, and of all text in one file."""
    max_texts: Count = 1_024
    """Maximum texts in one request."""
    max_sentences: Count = 50_000
    """Maximum sentences of a request to `/translate`; four megabytes of prose have fewer."""
    max_body_bytes: Count = 4_000_000
    """Maximum bytes of a request without a file."""
    max_file_bytes: CountFromZero = 20_000_000
    """Maximum bytes of an uploaded file; 0 disables the translation of files."""
    max_waiting_bytes: Count = 500_000_000
    """Maximum bytes of all pending requests together; a request beyond them gets 503. A caller may
    use half of them."""
    max_unpacked_bytes: Count = 50_000_000
    """Maximum unpacked bytes of a file that is an archive, such as `.docx`."""
    file_processes: Count = 2
    """Files that are read at the same time, each in its own process; others wait."""
    file_memory_mib: Annotated[int, Field(ge=256)] = 1_024
    """Memory of a process that reads a file, in MiB; a file that needs more is rejected."""
    max_alternatives: Annotated[int, Field(ge=0, le=50)] = 10
    """Maximum alternatives of a text that a request may ask for."""
    max_beam_size: Annotated[int, Field(ge=1, le=1_000)] = 20
    """Maximum beam size of a request to `/v1/translate`."""
    requests_per_minute: CountFromZero = 0
    """Maximum requests per minute of a key, or of an address without one; a list counts each of
    its texts. 0: no limit. The key file may override it for a key."""
    queue_lines: Count = 8_192
    """Maximum lines in a model's queue; a request beyond them gets 503."""
    batch_lines: Annotated[int, Field(ge=1, le=4_096)] = 64
    """Maximum lines of a batch; more use the threads better, and make other lines wait longer."""
    batch_characters: Count = 16_384
    """Maximum characters of a batch of several lines."""
    batch_seconds: Strength = 30.0
    """Timeout of a batch: then its process is replaced, and its lines are retried one by one, each
    with half the timeout. A line longer than `batch_characters` has more in proportion. Raise it
    for a large model on a slow machine."""
    batch_memory_gib: Strength = 8.0
    """Maximum memory of a model's process on a CPU, in GiB, besides that of the loaded model."""
    batch_wait_milliseconds: StrengthFromZero = 2.0
    """How long a line waits for others to fill its batch."""
    request_seconds: Strength = 120.0
    """Timeout of a request: then it gets 504, and its lines leave the queue."""
    header_seconds: Strength = 20.0
    """Timeout of a request's headers: then the connection is closed."""
    body_seconds: Strength = 60.0
    """Timeout of a request's body."""
    shutdown_seconds: Strength = 60.0
    """Time that running requests have after SIGTERM."""
    max_connections: Count = 8_192
    """Maximum open connections; one more is closed unread."""
    file_minutes: Strength = 30.0
    """How long a translated file can be downloaded."""
    max_stored_bytes: Count = 500_000_000
    """Maximum bytes of all translated files together; new ones replace the oldest."""
    load: Literal["start", "first-use"] = "start"
    """When models are loaded."""
    memory_gib: StrengthFromZero = 0.0
    """Memory of all models together, in GiB: beyond it, an idle model is unloaded for one that a
    request needs. 0: no limit."""
    pivot: LanguageCode | None = None
    """Intermediate language if no model translates directly; the response names it."""
    fallback: str | None = None
    """Name of a model, such as a large language model, that translates a line again if its
    translation has a flag (`inference.flags`, which it turns on); each line of `/v1/translate`
    names its model then."""
    fallback_seconds: Strength = 30.0
    """How long the lines of a request wait for `fallback`; then the first translations stay."""
    cors_origins: tuple[str, ...] = ("*",)
    """Origins whose pages may call the server from a browser, such as `https://cms.example.org`;
    `*`: any, for LibreTranslate's routes only. `[]`: none."""
    hosts: tuple[str, ...] = ()
    """Host names of the server; a request to another is rejected. Default: any, and on a loopback
    address only `localhost` and its addresses."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses of reverse proxies whose `X-Forwarded-For` and `-Proto` are trusted."""
    log: Literal["text", "json", "none"] = "text"
    """Format of the log, a line on stderr for each request without its texts and key."""
    log_texts: bool = False
    """Whether the `json` log includes the texts of requests (`q`, `lines`, `pairs`), not files or
    translations; for debugging."""
