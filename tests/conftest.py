"""What every test shares: the shapes in signatures are checked while tests run."""

from jaxtyping import install_import_hook

# Before any test imports mtkit, since a module is only rewritten while it is loaded.
install_import_hook(["mtkit.model", "mtkit.inference.search"], "beartype.beartype")
