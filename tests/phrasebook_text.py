"""Text in one language for tests: documents of phrasebook sentences."""

from pathlib import Path

import numpy as np

from mtkit.data.phrasebook import generate_pairs


def write_text(folder: Path) -> None:
    """Writes documents of one to twelve sentences, parted by blank lines."""
    for split, count in (("train", 300), ("dev", 40)):
        lines = [english for english, _ in generate_pairs(split, count)]
        sizes = np.random.default_rng(1).integers(1, 13, size=count).tolist()
        documents, first = [], 0
        while first < count:
            size = sizes[len(documents)]
            documents.append("\n".join(lines[first : first + size]) + "\n")
            first += size
        (folder / f"{split}.txt").write_text("\n".join(documents), "utf-8")
