"""Installs a package in Argos Translate and translates a file with it.

    python benchmarks/argos_package.py PACKAGE < input.txt > output.txt

Run it in an environment that has argostranslate or argos-translate-lt, not mtkit. Each line is a
sentence: the splitter, whose model would be fetched, is replaced by one that leaves a line whole.
"""

import os
import sys
import tempfile
import types
from pathlib import Path


def main() -> None:
    package_path = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        # The library reads these at import; the user's own packages aren't touched.
        os.environ["XDG_DATA_HOME"] = os.environ["XDG_CONFIG_HOME"] = folder
        os.environ["XDG_CACHE_HOME"] = folder
        os.environ.setdefault("ARGOS_DEVICE_TYPE", "cpu")
        if "stanza" not in sys.modules:
            # argostranslate 1.11 imports it whether it is used or not.
            sys.modules["stanza"] = types.ModuleType("stanza")
        from argostranslate import package, sbd, translate  # noqa: PLC0415

        class OneSentence(sbd.ISentenceBoundaryDetectionModel):
            def __init__(self, pkg: object) -> None:
                self.pkg = pkg

            def split_sentences(self, text: str) -> list[str]:
                return [text]

        translate.MiniSBDSentencizer = OneSentence
        package.install_from_path(package_path)
        (installed,) = package.get_installed_packages()
        print(
            f"installed {installed}: {installed.from_code} to {installed.to_code}", file=sys.stderr
        )
        languages = {each.code: each for each in translate.get_installed_languages()}
        translation = languages[installed.from_code].get_translation(languages[installed.to_code])
        for line in sys.stdin:
            print(translation.translate(line.rstrip("\n")))


if __name__ == "__main__":
    main()
