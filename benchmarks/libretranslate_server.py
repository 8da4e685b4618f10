"""Runs LibreTranslate with one package, for `serve_load.py`; nothing is fetched.

    python benchmarks/libretranslate_server.py PACKAGE PORT

Run it in an environment that has libretranslate, without mtkit. Each line is a sentence: the
splitter, whose model would be fetched, is replaced by one that leaves a paragraph whole.
"""

import logging
import os
import sys
import tempfile
from pathlib import Path


def main() -> None:
    package_path, port = Path(sys.argv[1]).resolve(), sys.argv[2]
    with tempfile.TemporaryDirectory() as folder:
        # The libraries read these at import; the user's own packages aren't touched.
        for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
            os.environ[name] = folder
        os.environ.setdefault("ARGOS_DEVICE_TYPE", "cpu")
        # LibreTranslate writes its own files into the current directory.
        os.chdir(folder)
        from argostranslate import package, sbd, translate  # noqa: PLC0415

        class OneSentence(sbd.ISentenceBoundaryDetectionModel):
            def __init__(self, pkg: object) -> None:
                self.pkg = pkg

            def split_sentences(self, text: str) -> list[str]:
                return [text]

        translate.MiniSBDSentencizer = OneSentence
        package.install_from_path(package_path)
        import libretranslate.init  # noqa: PLC0415

        # It would look for packages and splitters online.
        libretranslate.init.boot = lambda *_: None
        from libretranslate.main import main as run  # noqa: PLC0415

        # It would log every text.
        logging.disable(logging.INFO)
        sys.argv = ["libretranslate", "--host", "127.0.0.1", "--port", port, "--disable-web-ui"]
        run()


if __name__ == "__main__":
    main()
