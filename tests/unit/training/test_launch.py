"""How a worker ends, whatever its threads are at."""

import subprocess
import sys
from pathlib import Path

# A thread that is inside the store at the interpreter's own end makes that an abort (SIGABRT).
_WORKER = """
import threading, time
from datetime import timedelta
from torch.distributed import TCPStore
from mtkit.training.launch import run_worker

def ask():
    while True:
        client.multi_get(["key"])

server = TCPStore("127.0.0.1", 0, is_master=True, timeout=timedelta(seconds=20))
client = TCPStore("127.0.0.1", server.port, is_master=False, timeout=timedelta(seconds=20))
client.set("key", "value")
threading.Thread(target=ask, daemon=True).start()
time.sleep(0.2)
run_worker(lambda: print("done", end=""))
"""


def test_a_worker_ends_though_a_thread_asks_the_store(tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(_WORKER, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, str(script)], capture_output=True, check=False, timeout=120
    )
    assert ended.returncode == 0, ended.stderr.decode()
    assert ended.stdout.decode() == "done"
