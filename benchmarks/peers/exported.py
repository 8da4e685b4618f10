"""The sentence pairs that every peer trains on, as tokens that mtkit made.

`export` writes them from a prepared workspace (mtkit's environment); `Pairs` reads them (any
environment with numpy). The peers that read text get each token's number as a word: the very same
pieces, whatever characters are in them.
"""

from pathlib import Path

import numpy as np

UNK = 1
NUM_SPECIAL = 4
"""<pad>, <unk>, <s> and </s>, which each peer has its own of."""


class Pairs:
    """Sentence pairs, each side closed by `</s>`.

    Attributes:
        lengths: Tokens of each source and of each target.
    """

    def __init__(self, folder: str) -> None:
        stored = np.load(Path(folder) / "pairs.npz")
        self.lengths = (stored["source_lengths"], stored["target_lengths"])
        self._tokens = (stored["source_tokens"], stored["target_tokens"])
        self._ends = tuple(map(np.cumsum, self.lengths))

    def __len__(self) -> int:
        return len(self.lengths[0])

    def source(self, row: int) -> np.ndarray:
        """Returns a source's tokens."""
        return self._side(0, row)

    def target(self, row: int) -> np.ndarray:
        """Returns a target's tokens."""
        return self._side(1, row)

    def _side(self, side: int, row: int) -> np.ndarray:
        end = self._ends[side][row]
        return self._tokens[side][end - self.lengths[side][row] : end]


def export(workspace: Path, folder: Path, max_pairs: int) -> dict[str, int]:
    """Writes a workspace's training pairs to a folder, spread evenly where there are too many.

    Returns:
        Numbers of `pairs` and of pieces in the vocabulary (`vocab_size`).

    Raises:
        MtkitError: The workspace isn't prepared, or source and target have different pieces.
    """
    # What runs in a peer's environment has no mtkit.
    from mtkit.data.batches.token_store import TokenStore  # noqa: PLC0415
    from mtkit.errors import MtkitError  # noqa: PLC0415
    from mtkit.text.tokenizer import SubwordTokenizer  # noqa: PLC0415
    from mtkit.workspace import Workspace  # noqa: PLC0415

    data = Workspace(workspace)
    tokenizer = SubwordTokenizer.load(data.tokenizer)
    if not tokenizer.is_joint:
        raise MtkitError("the peers need one vocabulary for both sides (tokenizer.joint)")
    store = TokenStore(data.data / "train")
    rows = np.linspace(0, len(store) - 1, min(max_pairs, len(store))).astype(np.int64)
    source, target = store.gather(np.unique(rows)).values()
    np.savez(
        folder / "pairs.npz",
        source_tokens=source.tokens,
        source_lengths=source.lengths,
        target_tokens=target.tokens,
        target_lengths=target.lengths,
    )
    for name, side in (("source", source), ("target", target)):
        lines = (
            # Without the </s> that each system adds, or doesn't, by its own rules.
            " ".join("<unk>" if token == UNK else str(token) for token in sentence[:-1])
            for sentence in side.to_lists()
        )
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", "utf-8")
    vocab_size = tokenizer.target_vocab_size
    words = [str(token) for token in range(NUM_SPECIAL, vocab_size)]
    (folder / "vocabulary.txt").write_text("\n".join(words) + "\n", "utf-8")
    return {"pairs": len(source), "vocab_size": vocab_size}
