import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from mtkit.errors import MtkitError
from mtkit.inference.engines.engine import EncodedSource
from mtkit.inference.engines.parallel_engine import ParallelEngine, open_processes
from mtkit.inference.engines.torch_engine import TorchEngine
from mtkit.inference.translation import Hypothesis
from mtkit.recipe.inference import Inference, LengthPenalty
from mtkit.text.token_ids import EOS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux")


class TellingEngine:
    """Stands for an Engine: an output is the source's length, the process and its threads."""

    max_tokens = 100
    batches_at_once = 1

    def search(
        self, sources: Sequence[EncodedSource], settings: Inference
    ) -> list[list[Hypothesis]]:
        time.sleep(0.01)
        told = (os.getpid(), torch.get_num_threads(), len(sources))
        return [
            [Hypothesis((len(source.tokens), *told), -1.0, -1.0, True, (-1.0,) * 4)]
            for source in sources
        ]

    def score(self, source_batch, target_batch):
        return [[float(os.getpid())] for _ in source_batch]


class FaultyEngine(TellingEngine):
    """Does something else where a source has as many tokens as `at`."""

    def __init__(self, at: int, fault) -> None:
        self.at, self.fault = at, fault

    def search(self, sources, settings):
        if any(len(source.tokens) == self.at for source in sources):
            self.fault()
        return super().search(sources, settings)


def sources_of(lengths: Sequence[int]) -> list[EncodedSource]:
    return [EncodedSource([7] * (length - 1) + [EOS]) for length in lengths]


def tell(engine, lengths: Sequence[int]) -> list[tuple[int, ...]]:
    return [found[0].token_ids for found in engine.search(sources_of(lengths), Inference())]


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_outputs_come_back_in_order_from_processes_of_one_thread():
    lengths = [3 + place * 7 % 40 for place in range(200)]
    told = tell(ParallelEngine(TellingEngine(), 2), lengths)
    assert [output[0] for output in told] == lengths
    pids = {output[1] for output in told}
    assert len(pids) == 2
    assert os.getpid() not in pids
    assert {output[2] for output in told} == {1}


def test_callers_in_threads_get_what_is_theirs():
    engine = ParallelEngine(TellingEngine(), 2)
    of_callers = [[first + index % 9 for index in range(40)] for first in (3, 30, 60)]
    with ThreadPoolExecutor(3) as threads:
        calls = [threads.submit(tell, engine, lengths) for lengths in of_callers]
        found = [[output[0] for output in call.result()] for call in calls]
    assert found == of_callers


def test_few_sentences_are_searched_here():
    told = tell(ParallelEngine(TellingEngine(), 4), [5] * 15)
    assert {output[1] for output in told} == {os.getpid()}


def test_no_process_without_a_share():
    told = tell(ParallelEngine(TellingEngine(), 16), [5] * 24)
    assert len({output[1] for output in told}) <= 3
    assert sum(1 / output[3] for output in told) <= 3.01


def test_scores_are_made_here():
    assert ParallelEngine(TellingEngine(), 2).score([[EOS]], [[EOS]]) == [[os.getpid()]]


def test_what_an_engine_can_take():
    engine = ParallelEngine(TellingEngine(), 3)
    assert engine.max_tokens == 100
    assert engine.batches_at_once >= 3


def test_a_users_fault_comes_over_and_the_next_search_works():
    def refuse() -> None:
        raise MtkitError("no such thing", "take another")

    engine = ParallelEngine(FaultyEngine(9, refuse), 2)
    with pytest.raises(MtkitError, match="no such thing") as caught:
        tell(engine, [*range(3, 60)])
    assert caught.value.hint == "take another"
    assert [output[0] for output in tell(engine, [5] * 40)] == [5] * 40


def test_any_other_fault_says_where():
    engine = ParallelEngine(FaultyEngine(9, lambda: 1 / 0), 2)
    with pytest.raises(RuntimeError, match=r"(?s)in search.*ZeroDivisionError"):
        tell(engine, [*range(3, 60)])


def test_a_process_that_is_killed_is_told_of_and_replaced():
    engine = ParallelEngine(FaultyEngine(9, lambda: os.kill(os.getpid(), signal.SIGKILL)), 2)
    with pytest.raises(MtkitError, match="ended unexpectedly, exit code -9") as caught:
        tell(engine, [*range(3, 60)])
    assert "inference.processes" in caught.value.hint
    assert [output[0] for output in tell(engine, [5] * 40)] == [5] * 40


def test_a_process_that_was_killed_while_idle_is_told_of():
    engine = ParallelEngine(TellingEngine(), 2)
    victim = tell(engine, [5] * 40)[0][1]
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(MtkitError, match="ended unexpectedly, exit code -9"):
        tell(engine, [5] * 40)
    assert len(tell(engine, [5] * 40)) == 40


def test_an_interrupt_ends_the_processes_at_work():
    def interrupt_the_parent() -> None:
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(60)

    engine = ParallelEngine(FaultyEngine(9, interrupt_the_parent), 2)
    pids = {output[1] for output in tell(engine, [5] * 40)}
    with pytest.raises(KeyboardInterrupt):
        tell(engine, [*range(3, 60)])
    assert all(map(is_gone, pids))


def test_processes_end_with_the_engine():
    engine = ParallelEngine(TellingEngine(), 2)
    pids = {output[1] for output in tell(engine, [5] * 40)}
    assert not any(map(is_gone, pids))
    del engine
    assert all(map(is_gone, pids))


_PARENT = """
import sys, time
sys.path.insert(0, {folder!r})
from test_parallel_engine import FaultyEngine, ParallelEngine, tell
engine = ParallelEngine(FaultyEngine(9, lambda: [time.sleep(0.1) for _ in range(600)]), 3)
print(*sorted({{output[1] for output in tell(engine, [5] * 80)}}), flush=True)
{rest}
"""


@pytest.mark.parametrize(
    "rest", ["time.sleep(60)", "tell(engine, [9] * 80)", "", "raise SystemExit(3)"]
)
def test_no_process_outlives_the_one_that_began_it(rest):
    code = _PARENT.format(folder=str(Path(__file__).parent), rest=rest)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 3
        if rest.startswith(("time", "tell")):
            time.sleep(0.3)
            parent.kill()
        # Nobody else holds the pipe.
        assert parent.stdout.read() == b""
    for _ in range(100):
        if all(map(is_gone, pids)):
            return
        time.sleep(0.1)
    pytest.fail(f"still there: {pids}")


def test_a_fork_of_the_program_has_processes_of_its_own():
    engine = ParallelEngine(TellingEngine(), 2)
    ours = {output[1] for output in tell(engine, [5] * 40)}
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            lengths = [*range(20, 60)]
            told = tell(engine, lengths)
            is_right = [output[0] for output in told] == lengths
            theirs = {output[1] for output in told}
            del engine
            os.write(writer, b"y" if is_right and not theirs & ours else b"n")
        finally:
            os._exit(0)
    told = tell(engine, [5] * 40)
    assert os.read(reader, 1) == b"y"
    os.waitpid(child, 0)
    os.close(reader)
    os.close(writer)
    assert {output[1] for output in told} == ours
    assert {output[0] for output in told} == {5}
    assert {output[1] for output in tell(engine, [5] * 40)} == ours


def test_one_process_translates_where_the_system_allows_no_other(monkeypatch):
    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    told = tell(ParallelEngine(TellingEngine(), 2), [5] * 40)
    assert {output[1] for output in told} == {os.getpid()}


def test_a_process_that_was_ended_by_others_says_how():
    engine = ParallelEngine(FaultyEngine(9, lambda: os.kill(os.getpid(), signal.SIGTERM)), 2)
    with pytest.raises(MtkitError, match="ended unexpectedly, exit code -15"):
        tell(engine, [*range(3, 60)])


def test_a_process_that_was_stopped_is_ended():
    engine = ParallelEngine(TellingEngine(), 2)
    pids = {output[1] for output in tell(engine, [5] * 40)}
    os.kill(min(pids), signal.SIGSTOP)
    del engine
    assert all(map(is_gone, pids))


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_networks_outputs_are_the_same_in_processes(make_recipe, make_model, beam_size):
    alone = TorchEngine(make_model(make_recipe()), "cpu")
    lengths = [2 + place * 5 % 13 for place in range(60)]
    sources = [
        EncodedSource([5 + (place + token) % 9 for token in range(length)] + [EOS])
        for place, length in enumerate(lengths)
    ]
    settings = Inference(beam_size=beam_size, n_best=beam_size, max_extra_tokens=4)
    expected = alone.search(sources, settings)
    found = ParallelEngine(alone, 2).search(sources, settings)
    assert [[h.token_ids for h in of_source] for of_source in found] == [
        [h.token_ids for h in of_source] for of_source in expected
    ]
    assert [h.score for of_source in found for h in of_source] == pytest.approx(
        [h.score for of_source in expected for h in of_source], abs=1e-5
    )


def test_one_process_is_the_engine_itself():
    engine = TellingEngine()
    assert open_processes(engine, torch.device("cpu"), 1) is engine
    assert open_processes(engine, torch.device("cuda"), 2) is engine


def test_as_many_processes_as_torch_has_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        told = tell(open_processes(TellingEngine(), torch.device("cpu"), "auto"), [5] * 200)
    finally:
        torch.set_num_threads(before)
    assert len({output[1] for output in told}) == 3


def test_length_penalties_reach_the_processes(make_recipe, make_model):
    alone = TorchEngine(make_model(make_recipe()), "cpu")
    sources = sources_of([3] * 40)
    settings = Inference(length_penalty=LengthPenalty(kind="power", alpha=2.0), max_extra_tokens=4)
    found = ParallelEngine(alone, 2).search(sources, settings)
    assert [of[0].token_ids for of in found] == [
        of[0].token_ids for of in alone.search(sources, settings)
    ]


class AttendingEngine(TellingEngine):
    """Tells what was asked."""

    def attend(self, source, targets):
        return [np.full((len(target), len(source)), 0.5, np.float32) for target in targets]


def test_attention_is_asked_of_the_engine() -> None:
    assert ParallelEngine(TellingEngine(), 2).attend([EOS], [[EOS]]) is None
    (found,) = ParallelEngine(AttendingEngine(), 2).attend([7, EOS], [[7, 7, EOS]])
    assert found.tolist() == [[0.5, 0.5]] * 3
