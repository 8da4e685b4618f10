"""`mtkit split`: cuts a corpus into training, development and test set."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def split(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Files with both sides, such as memory.tmx or all.tsv; or two text files, "
            "aligned by line.",
            show_default=False,
        ),
    ],
    *,
    source: Annotated[str, typer.Option("--from", metavar="LANGUAGE", help="Source language.")],
    target: Annotated[str, typer.Option("--to", metavar="LANGUAGE", help="Target language.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder of the three files.")
    ] = Path("corpus"),
    columns: Annotated[
        str,
        typer.Option(
            "--columns",
            metavar="SOURCE,TARGET",
            help="Columns of tables, by number, or by the names in the first line.",
            show_default=False,
        ),
    ] = "",
    dev: Annotated[
        int, typer.Option("--dev", metavar="PAIRS", min=1, help="Size of the development set.")
    ] = 1_000,
    test: Annotated[
        int, typer.Option("--test", metavar="PAIRS", min=1, help="Size of the test set.")
    ] = 1_000,
    by: Annotated[
        Literal["templates", "documents", "rows"],
        typer.Option(
            "--by",
            help="What stays in one set: pairs with a side or a template in common, documents "
            "(between blank lines, or files), or pairs with a side in common.",
        ),
    ] = "templates",
) -> None:
    """Split parallel text into train.tsv, dev.tsv and test.tsv, the same way every time."""
    from mtkit.console import say, warn
    from mtkit.data.preparation.note_languages import note_codes
    from mtkit.data.split import Splitting, read_as_corpora

    for misspelt in note_codes((source, target), "correct --from or --to"):
        warn(str(misspelt))
    chosen: tuple[int | str, int | str] | None = None
    if columns:
        left, comma, right = columns.partition(",")
        if not (left and comma and right):
            raise typer.BadParameter("expected two columns, such as 2,3 or English,German")
        chosen = (_read_column(left), _read_column(right))
    splitting = Splitting(read_as_corpora(files, chosen), (source, target), by)
    wanted = {"test": test, "dev": dev}
    sizes = splitting.split(output, wanted)
    say(", ".join(f"{output / name}.tsv: {size:,} pairs" for name, size in sizes.items()))
    for note in splitting.notes:
        warn(note)
    for name, size in wanted.items():
        if sizes[name] < size:
            warn(
                f"{name}.tsv has {sizes[name]:,} pairs of {size:,}: "
                + (
                    "the other documents are larger than what is missing, misaligned, or have "
                    "lines with one side only"
                    if by == "documents"
                    else "most pairs are too similar to others, or misaligned"
                )
            )


def _read_column(name: str) -> int | str:
    if not name.strip().isdecimal():
        return name.strip()
    if int(name) < 1:
        raise typer.BadParameter(f"column {name.strip()}: columns are numbered from 1")
    return int(name)
