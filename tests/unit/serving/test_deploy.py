"""docs/deploy: what compose.yaml, the unit and the image start, split as their programs do."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import httpx2
import pytest
import yaml

from mtkit.serving.keys import add_key
from mtkit.serving.settings import Serving

from ... import warm

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "docs" / "deploy"
NAME = "translate.example.org"


def read_instruction(name: str) -> str:
    """Returns the last of the image's instructions of a name, its lines joined."""
    text = re.sub(r"\\\n\s*", "", (DEPLOY / "Dockerfile").read_text("utf-8"))
    return re.findall(rf"^{name} (.*)$", text, re.MULTILINE)[-1]


def interpolate(value: str, variables: dict[str, str]) -> str:
    """Returns a value as compose reads it: `${NAME:?}` is a variable that has to be set."""
    found = re.sub(r"\$\{(\w+)(?::\?[^}]*)?\}", lambda match: variables[match[1]], value)
    assert "$" not in found
    return found


def compose_command() -> list[str]:
    """Returns what compose starts: the image's entry point, and the service's command."""
    command = read_compose()["services"]["mtkit"]["command"]
    parts = shlex.split(command) if isinstance(command, str) else command
    variables = {"TRANSLATE_HOST": NAME}
    return [*image_entry(), *(interpolate(str(part), variables) for part in parts)]


def image_entry() -> list[str]:
    return list(json.loads(read_instruction("ENTRYPOINT")))


def image_command() -> list[str]:
    return [*image_entry(), *json.loads(read_instruction("CMD"))]


def unit_command() -> list[str]:
    """Returns what systemd starts; a backslash at its end joins a line with the next one."""
    text = re.sub(r"\\\n\s*", " ", (DEPLOY / "mtkit-serve.service").read_text("utf-8"))
    (line,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    credentials = dict(
        each.split(":") for each in re.findall(r"^LoadCredential=(.*)$", text, re.MULTILINE)
    )
    folder = "${CREDENTIALS_DIRECTORY}/"
    return [
        credentials[part.removeprefix(folder)] if part.startswith(folder) else part
        for part in shlex.split(line)
    ]


def read_compose() -> dict[str, Any]:
    return dict(yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8")))


class Deployed:
    """A server that a deployment's command starts, with paths and address of this machine."""

    def __init__(self, command: list[str], model: Path, folder: Path) -> None:
        self.key = add_key(folder / "keys.toml", "cms")
        at = command.index("serve") + 1
        arguments = command[at:]
        for option, path in (("--model", model), ("--keys", folder / "keys.toml")):
            arguments[arguments.index(option) + 1] = str(path)
        self._log = folder / "log"
        with self._log.open("wb") as stream:
            self.process = subprocess.Popen(
                [*warm.command(), "serve", *arguments, "--port", "0"],
                stdout=stream,
                stderr=stream,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        while "serving " not in self._log.read_text("utf-8"):
            assert self.process.poll() is None, self._log.read_text("utf-8")
            time.sleep(0.05)
        address = self._log.read_text("utf-8").split(" on ")[1].split()[0].rstrip("/")
        self.port = address.rsplit(":", 1)[1]

    def ask(self, path: str, host: str, **options: Any) -> int:
        url = f"http://127.0.0.1:{self.port}{path}"
        headers = {"host": host}
        call = httpx2.post if options else httpx2.get
        return int(call(url, headers=headers, timeout=60.0, **options).status_code)


@pytest.fixture
def deploy(folder: Path, tmp_path: Path) -> Iterator[Callable[[list[str]], Deployed]]:
    started: list[Deployed] = []

    def start(command: list[str]) -> Deployed:
        started.append(Deployed(command, folder, tmp_path))
        return started[-1]

    yield start
    for server in started:
        server.process.kill()
        server.process.wait()


@pytest.mark.parametrize(
    "read_command",
    [
        compose_command,
        pytest.param(unit_command, marks=pytest.mark.patient),
        pytest.param(image_command, marks=pytest.mark.patient),
    ],
)
def test_its_command_starts_a_server_that_asks_for_a_key(deploy, read_command) -> None:
    server = deploy(read_command())
    assert server.ask("/health", NAME) == 200
    body = {"q": "a", "source": "en", "target": "de"}
    assert server.ask("/translate", NAME, json=body) == 400
    assert server.ask("/translate", NAME, json={**body, "api_key": "guessed"}) == 403
    assert server.ask("/translate", NAME, json={**body, "api_key": server.key}) == 200
    # nginx sends its upstream's address as the name unless it is configured; a stranger's page
    # that points its name at the server sends that.
    for stranger in ("127.0.0.1:5000", "evil.example"):
        expected = 200 if read_command is image_command else 400
        assert server.ask("/health", stranger) == expected
    # The image's health check, at the port of this test.
    check = json.loads(read_instruction("HEALTHCHECK").split("CMD ")[1])
    asked = check[-1].replace(":5000/", f":{server.port}/")
    assert asked != check[-1]
    done = subprocess.run([sys.executable, *check[1:-1], asked], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_compose_mounts_the_folders_that_its_head_fills() -> None:
    head = (DEPLOY / "compose.yaml").read_text("utf-8").split("services:")[0]
    volumes = read_compose()["services"]["mtkit"]["volumes"]
    mounted = {target: source for source, target, _ in (each.split(":") for each in volumes)}
    # Relative to the folder of compose.yaml, in which the head's commands are typed.
    assert "# In this folder:" in head
    assert f"--keys {mounted['/keys'].removeprefix('./')}/keys.toml" in head
    assert f"{mounted['/models'].removeprefix('./')}/model" in head
    build = read_compose()["services"]["mtkit"]["build"]
    assert (DEPLOY / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()


def test_nginx_lets_through_what_the_server_takes() -> None:
    text = (DEPLOY / "nginx.conf").read_text("utf-8")
    megabytes = int(re.search(r"client_max_body_size (\d+)m;", text)[1])
    seconds = int(re.search(r"proxy_read_timeout (\d+)s;", text)[1])
    # nginx's own defaults, 1 MB and 60 s, end larger and longer requests that the server takes.
    assert megabytes << 20 > Serving().max_file_bytes
    assert seconds > Serving().request_seconds
    assert f"server_name {NAME};" in text


def is_sent(path: str) -> bool:
    """Returns whether docker sends a file to the build: the last rule that matches decides."""
    is_ignored = False
    for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines():
        rule = line.removeprefix("!")
        if not line or line.startswith("#"):
            continue
        parents = [PurePosixPath(path), *PurePosixPath(path).parents[:-1]]
        pattern = rule.removeprefix("**/")
        anywhere = rule.startswith("**/")
        if any(
            (each.match(pattern) if anywhere else each.as_posix() == rule or rule == "*")
            for each in parents
        ):
            is_ignored = not line.startswith("!")
    return not is_ignored


def test_the_image_is_built_of_what_it_needs_and_holds_no_secret() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = [
        "pyproject.toml",
        "constraints.txt",
        "hatch_build.py",
        project["project"]["readme"],
        *project["project"]["license-files"],
        project["tool"]["hatch"]["version"]["path"],
        *(f"{package}/__init__.py" for package in wheel["packages"]),
        *(f"{folder}/README.md" for folder in wheel["force-include"]),
        "mtkit/engine/cpp/engine.cpp",
        "mtkit/serving/static/page.js",
    ]
    assert [path for path in needed if not is_sent(path)] == []
    kept_out = [
        ".git/config",
        ".venv/bin/python",
        "runs/demo/model/model.safetensors",
        "docs/deploy/keys/keys.toml",
        "docs/deploy/models/model/config.json",
        "keys.toml",
        "mtkit/network/cpu/kernels/avx2.so",
        "mtkit/serving/__pycache__/keys.pyc",
    ]
    assert [path for path in kept_out if is_sent(path)] == []
