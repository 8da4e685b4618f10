"""When kernels are compiled again; the compiler here only notes what it was asked for."""

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from mtkit.engine import library

SCRIPT = Path(__file__).parents[3] / "hatch_build.py"
_COMPILER = """#!/bin/sh
for argument; do
  case "$argument" in
    -DMTKIT_MADE_OF=*) eval "${argument#-D}" ;;
  esac
  output="$argument"
done
printf '%s\\0' "$MTKIT_MADE_OF" > "$output"
echo "$output" >> "$0.log"
"""

pytestmark = pytest.mark.skipif(
    sys.platform == "win32" or not SCRIPT.is_file(), reason="kernels aren't compiled here"
)


@pytest.fixture
def hatch_build() -> ModuleType:
    specification = importlib.util.spec_from_file_location("hatch_build", SCRIPT)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    script = tmp_path / "compiler"
    script.write_text(_COMPILER)
    script.chmod(0o700)
    monkeypatch.setenv("CXX", str(script))
    return script


def count_compiled(hatch_build: ModuleType, compiler: Path, root: Path) -> int:
    """Returns how many libraries `compile_kernels` compiles."""
    log = Path(f"{compiler}.log")
    log.unlink(missing_ok=True)
    libraries = hatch_build.compile_kernels(root)
    assert libraries
    assert all(path.is_file() for path in libraries)
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_a_source_of_any_date_is_compiled_again_where_it_has_changed(
    hatch_build: ModuleType, compiler: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "root/mtkit/engine/cpp"
    folder.mkdir(parents=True)
    source = folder / "engine.cpp"
    source.write_text("// before\n")
    assert count_compiled(hatch_build, compiler, tmp_path / "root") > 0
    assert count_compiled(hatch_build, compiler, tmp_path / "root") == 0
    # As rsync -a and tar restore it: changed, and older than the library.
    source.write_text("// after\n")
    os.utime(source, (1e9, 1e9))
    assert count_compiled(hatch_build, compiler, tmp_path / "root") > 0
    # A newer date alone changes nothing.
    os.utime(source, (4e9, 4e9))
    assert count_compiled(hatch_build, compiler, tmp_path / "root") == 0


def test_a_library_of_other_options_is_compiled_again(
    hatch_build: ModuleType, compiler: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mtkit/engine/cpp"
    folder.mkdir(parents=True)
    (folder / "engine.cpp").write_text("// source\n")
    assert count_compiled(hatch_build, compiler, tmp_path) > 0
    monkeypatch.setattr(hatch_build, "_OPTIONS", ["-O2"])
    assert count_compiled(hatch_build, compiler, tmp_path) > 0


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("aarch64", {"neon-dot.so", "plain.so"}),
        ("x86_64", {"amx.so", "avx512-bf16.so", "avx512-vnni.so", "avx2.so", "plain.so"}),
        ("riscv64", {"plain.so"}),
    ],
)
def test_libraries_of_another_cpu_are_apart_from_this_ones(
    hatch_build: ModuleType,
    compiler: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    names: set[str],
) -> None:
    folder = tmp_path / "mtkit/engine/cpp"
    folder.mkdir(parents=True)
    (folder / "engine.cpp").write_text("// source\n")
    monkeypatch.setenv("MTKIT_TARGET", target)
    monkeypatch.setattr(hatch_build.platform, "machine", lambda: "s390x")
    libraries = hatch_build.compile_kernels(tmp_path)
    assert {path.name for path in libraries} == names
    assert {path.parent for path in libraries} == {tmp_path / "build" / target}


def test_a_wheel_is_for_its_target(
    hatch_build: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = hatch_build._tag()
    other = "x86_64" if hatch_build.platform.machine() == "aarch64" else "aarch64"
    monkeypatch.setenv("MTKIT_TARGET", other)
    assert hatch_build._tag() == here.replace(hatch_build.platform.machine(), other)


def test_without_the_fastest_library_the_next_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [kind for kind in library.KINDS if library.open_library(kind) is not None]
    plain = library.open_library("plain")
    runnable = [kind for kind in kinds if plain is not None and plain.mtkit_supports(kind.encode())]
    if len(runnable) < 2:
        pytest.skip("this CPU runs the plain library alone, or nothing is compiled")
    paths = {kind: library.FOLDER / f"{kind}.so" for kind in library.KINDS}
    paths[runnable[0]] = library.FOLDER / "none.so"
    monkeypatch.setattr(library, "library_path", paths.__getitem__)
    library.choose_library.cache_clear()
    try:
        assert library.find_instructions() == runnable[1]
        assert library.describe_library().startswith(f"{runnable[1]}: ")
    finally:
        library.choose_library.cache_clear()
