"""A penalty for outputs that leave out some of the source."""

from jaxtyping import Bool, Float
from torch import Tensor

from mtkit.inference.search.penalties import MIN_COVERAGE


def coverage_penalty(
    coverage: Float[Tensor, "batch beam src_len"],
    source_is_token: Bool[Tensor, "batch src_len"],
    beta: float,
) -> Float[Tensor, "batch beam"]:
    """Returns what is added to a score: 0 where every source token got its share, else less.

    beta times the sum over source tokens of log(min(coverage, 1)) (arXiv 1609.08144, equation 14).
    A token that got no attention at all costs as much as one that got `MIN_COVERAGE`, so that the
    penalty is finite and never falls as more of the source is left out.

    Args:
        coverage: Attention that each source token got, summed over the output's tokens.
        source_is_token: False at padding.
        beta: Strength.
    """
    shares = coverage.clamp(MIN_COVERAGE, 1.0).log()
    penalties: Tensor = shares.masked_fill(~source_is_token[:, None], 0.0).sum(dim=-1) * beta
    return penalties
