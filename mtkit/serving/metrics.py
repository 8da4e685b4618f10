"""Metrics for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_LINES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Counters of one server, by route or by model.

    Attributes:
        request_seconds: Time to answer.
        seconds: From the queue to the last line's answer.
        batch_seconds: Time of the model.
        refused: Requests rejected because the queue was full.
        restarts: Processes that died.
        left: Clients that disconnected before the response.
    """

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        by_model = ("model",)
        self.requests = Counter("mtkit_requests", "Answers", ("route", "status"), registry=registry)
        self.request_seconds = Histogram(
            "mtkit_request_seconds",
            "Time to answer a request",
            ("route",),
            registry=registry,
            buckets=_SECONDS,
        )
        self.seconds = Histogram(
            "mtkit_translation_seconds",
            "Time from the queue to the last line's answer",
            by_model,
            registry=registry,
            buckets=_SECONDS,
        )
        self.batch_lines = Histogram(
            "mtkit_batch_lines", "Lines of a batch", by_model, registry=registry, buckets=_LINES
        )
        self.batch_seconds = Histogram(
            "mtkit_batch_seconds",
            "Time that a model takes for a batch",
            by_model,
            registry=registry,
            buckets=_SECONDS,
        )
        self.tokens = Counter("mtkit_output_tokens", "Output tokens", by_model, registry=registry)
        self.refused = Counter(
            "mtkit_refused_requests",
            "Requests rejected because the queue was full",
            by_model,
            registry=registry,
        )
        self.restarts = Counter(
            "mtkit_worker_deaths", "Processes that died", by_model, registry=registry
        )
        self.left = Counter(
            "mtkit_left_callers", "Clients that disconnected before the response", registry=registry
        )
        self.waiting = Gauge("mtkit_queue_lines", "Lines in the queue", by_model, registry=registry)

    def render(self) -> bytes:
        """Returns the metrics in Prometheus's format."""
        return generate_latest(self._registry)
