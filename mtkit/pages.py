"""Templates of pages that need nothing else, filled in by Jinja."""

from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined


def open_templates(package: str) -> Environment:
    """Returns a package's `templates/`, which escape every value and refuse unknown names."""
    templates = files(package) / "templates"
    return Environment(
        loader=FunctionLoader(lambda name: (templates / name).read_text("utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
