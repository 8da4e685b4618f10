"""`mtkit prepare`: corpora become cleaned, tokenised data."""

from mtkit.cli.options import RecipeOption, SetOption, WorkspaceOption, open_run


def prepare(
    *, recipe: RecipeOption = "", workspace: WorkspaceOption = None, overrides: SetOption = None
) -> None:
    """Clean the corpora, train the tokenizer and store the data as numbers."""
    opened, place = open_run(recipe, workspace, overrides)
    from mtkit.pipeline.prepare import prepare as prepare_data

    prepare_data(opened, place)
