"""Templates of pages and of cards, rendered with Jinja."""

from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined


def open_templates(package: str, *, is_html: bool = True) -> Environment:
    """Returns a package's `templates/`, which reject unknown names; HTML escapes every value."""
    templates = files(package) / "templates"
    return Environment(
        loader=FunctionLoader(lambda name: (templates / name).read_text("utf-8")),
        autoescape=is_html,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=not is_html,
    )
