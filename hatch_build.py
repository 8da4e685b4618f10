"""Compiles mtkit's engine when the package is built or installed, where there is a compiler.

Without one, and on Windows, mtkit is installed without it, and PyTorch does its work.

`MTKIT_TARGET=aarch64` (or `x86_64`) builds a wheel for Linux on another kind of CPU, with the
compiler `aarch64-linux-gnu-g++` or the one that CXX names.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

_SOURCES = Path("mtkit/engine/cpp")
_OPTIONS = ["-std=c++17", "-O3", "-ffp-contract=fast", "-fPIC", "-shared", "-pthread"]
_AVX512 = [
    *("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni", "-mfma"),
    "-mprefer-vector-width=512",
]
_X86 = {
    "amx": [*_AVX512, "-mavx512bf16", "-mamx-tile", "-mamx-int8", "-mamx-bf16"],
    "avx512-bf16": [*_AVX512, "-mavx512bf16"],
    "avx512-vnni": _AVX512,
    "avx2": ["-mavx2", "-mfma"],
    "plain": [],
}
# Vectors of NEON are part of every aarch64 CPU.
_ARM = {"neon-dot": ["-march=armv8.2-a+dotprod"], "plain": []}
_KINDS = {"x86_64": _X86, "amd64": _X86, "aarch64": _ARM, "arm64": _ARM}


class KernelsHook(BuildHookInterface):
    """Compiles a library for each kind of CPU into the folder of its source."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles; a wheel with kernels is for this platform alone."""
        if self.target_name != "wheel":
            return
        libraries = compile_kernels(Path(self.root))
        if not libraries:
            self.app.display_warning(
                "mtkit: no C++ compiler (g++ or clang++, or the one that CXX names): "
                "translation on a CPU will be slower"
            )
            return
        build_data["pure_python"] = False
        build_data["tag"] = _tag()
        if _is_cross():
            build_data["force_include"] |= {
                str(path): str(_SOURCES / path.name) for path in libraries
            }
        else:
            build_data["artifacts"] += [str(path.relative_to(self.root)) for path in libraries]


def _tag() -> str:
    """Returns the tag of a wheel for any Python 3 on the target's platform."""
    here = next(iter(sys_tags())).platform
    if _is_cross():
        here = here.removesuffix(platform.machine()) + _target()
    return f"py3-none-{here}"


def _target() -> str:
    """Returns the kind of CPU that libraries are compiled for."""
    return os.environ.get("MTKIT_TARGET") or platform.machine().lower()


def _is_cross() -> bool:
    return _target() != platform.machine().lower()


def compile_kernels(root: Path) -> list[Path]:
    """Returns the libraries that could be compiled; one of these sources and options is kept."""
    compiler = _find_compiler()
    if compiler is None or sys.platform == "win32":
        return []
    folder = root / _SOURCES
    # Libraries of another CPU can't be used from here.
    to = root / "build" / _target() if _is_cross() else folder
    to.mkdir(parents=True, exist_ok=True)
    sources = sorted([*folder.glob("*.h"), *folder.glob("*.cpp")])
    # A library is loaded only beside the sources that it was made of (library.py). Dates say
    # nothing: rsync, tar and caches restore them.
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    # The library finds what it needs on older systems, too.
    portable = ["-static-libstdc++", "-static-libgcc"] if sys.platform == "linux" else []
    running = {}
    done = []
    for kind, of_kind in _KINDS.get(_target(), {"plain": []}).items():
        library = to / f"{kind}.so"
        options = [*_OPTIONS, *portable, *of_kind]
        made_of = f"{digest} {' '.join(options)}"
        if library.exists() and made_of.encode() + b"\0" in library.read_bytes():
            done.append(library)
            continue
        # Under another name first: a process may have the old one open.
        new = library.with_suffix(".new")
        command = [
            *compiler,
            *options,
            f'-DMTKIT_MADE_OF="{made_of}"',
            str(folder / "engine.cpp"),
            "-o",
            str(new),
        ]
        running[library] = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for library, process in running.items():
        _, errors = process.communicate()
        if process.returncode == 0:
            library.with_suffix(".new").replace(library)
            done.append(library)
        else:
            print(f"mtkit: {library.name} couldn't be compiled:\n{errors}", file=sys.stderr)
    return done


def _find_compiler() -> list[str] | None:
    """Returns the command that compiles C++; None where there is none."""
    given = os.environ.get("CXX", "").split()
    commands = [given] if given else [["g++"], ["clang++"], ["c++"]]
    if _is_cross() and not given:
        commands = [[f"{_target()}-linux-gnu-g++"]]
    return next((command for command in commands if shutil.which(command[0])), None)


if __name__ == "__main__":
    for path in compile_kernels(Path(__file__).parent):
        print(path)
