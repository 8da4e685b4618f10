"""Makes a process of a light install; Python imports this at its start.

The packages that a light install lacks can't be imported.
"""

import sys
from types import ModuleType, SimpleNamespace

for _name in ("torch", "datasets", "pyarrow", "matplotlib"):
    sys.modules[_name] = None  # type: ignore[assignment]


def _install_engine() -> None:
    """Replaces the engine without PyTorch by one that copies its sources."""
    module = ModuleType("mtkit.inference.engines.native_engine")
    module.open_native_engine = open_copying_engine  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module


def open_copying_engine(folders, settings, device):
    from mtkit.devices import is_cpu

    if not is_cpu(device) or settings.fusion is not None:
        return None
    return SimpleNamespace(
        max_tokens=512,
        batches_at_once=1,
        constrains=True,
        aligns=True,
        precision="fp32",
        search=_search,
        score=lambda sources, targets: [[-0.5] * len(target) for target in targets],
        align=_align,
    )


def _search(sources, settings):
    from mtkit.inference.translation import Hypothesis

    found = []
    for source in sources:
        tokens = [*source.forced, *source.tokens[:-1], *(x for y in source.required for x in y), 3]
        hypothesis = Hypothesis(
            tuple(tokens),
            -1.0,
            -0.5,
            is_finished=True,
            token_log_probabilities=(-0.1,) * len(tokens),
        )
        found.append([hypothesis] * settings.n_best)
    return found


def _align(sources, targets):
    import numpy as np

    return [
        np.eye(len(target), len(source), dtype=np.float32)
        for source, target in zip(sources, targets, strict=True)
    ]


_install_engine()
