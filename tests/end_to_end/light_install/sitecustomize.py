"""Makes a process of a light install; Python imports this at its start.

The packages that a light install lacks can't be imported.
"""

import sys

for _name in ("torch", "datasets", "pyarrow", "matplotlib"):
    sys.modules[_name] = None  # type: ignore[assignment]
