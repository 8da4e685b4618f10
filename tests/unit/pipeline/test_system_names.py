from pathlib import Path

import pytest

from mtkit.pipeline.score_files import name_systems


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["newstest2017.FBK.4870.en-de.txt.gz", "newstest2017.online-A.0.en-de.txt.gz"],
         ["FBK.4870", "online-A.0"]),
        (["a.de", "b.de"], ["a", "b"]),
        (["out.de"], ["out.de"]),
        (["runs/base/translations/test.hyp", "runs/big/translations/test.hyp"], ["base", "big"]),
        (["x/a.de", "a.de"], ["x/a.de", "a.de"]),
        (["a", "a.b"], ["a", "a.b"]),
        (["x.a\tb.de", "x.c\n.de"], [r"a\tb", r"c\n"]),
        # A byte that is no text, and a file that is called as that byte is shown.
        (["a\udcff", r"a\xff", r"a\xff (2)"], [r"a\xff", r"a\xff (2)", r"a\xff (2) (2)"]),
    ],
)  # fmt: skip
def test_a_system_is_called_by_what_tells_its_file_from_the_others(files, names):
    assert name_systems([Path(file) for file in files]) == names
