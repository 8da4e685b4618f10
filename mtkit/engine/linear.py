"""Linear maps of the library."""

import numpy as np
from numpy.typing import NDArray

from mtkit.engine.library import Handle, address, check_status, choose_library
from mtkit.recipe.precision import InferencePrecision


class Linear(Handle):
    """A linear map: inputs times its transposed weight, plus its bias, in a precision.

    Sums are exact in int8, else in fp32. `weight` is [outputs, inputs], `bias` is [outputs]; both
    are copied.
    """

    def __init__(
        self,
        precision: InferencePrecision,
        weight: NDArray[np.float32],
        bias: NDArray[np.float32] | None = None,
    ) -> None:
        library = choose_library()
        assert library is not None
        self._library, self.num_outputs = library, len(weight)
        super().__init__(
            library.mtkit_new_linear(
                precision.encode(),
                *weight.shape,
                address(weight),
                None if bias is None else address(bias),
            ),
            library.mtkit_free_linear,
        )

    def apply(self, rows: NDArray[np.float32], num_threads: int) -> NDArray[np.float32]:
        """Returns the outputs, [rows, outputs], of inputs [rows, inputs]."""
        outputs = np.empty((len(rows), self.num_outputs), np.float32)
        status = self._library.mtkit_apply_linear(
            self.pointer, address(rows), len(rows), address(outputs), num_threads
        )
        check_status(status)
        return outputs
