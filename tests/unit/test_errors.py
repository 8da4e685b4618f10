import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from mtkit.errors import MtkitError, suggest


def test_an_error_reads_as_its_message() -> None:
    error = MtkitError("train.en: no such file", "check data_root")
    assert (str(error), error.hint) == ("train.en: no such file", "check data_root")
    assert MtkitError("x").hint == ""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("max_stps", " (did you mean 'max_steps'?)"),
        ("maxsteps", " (did you mean 'max_steps'?)"),
        ("zebra", ""),
    ],
)
def test_the_closest_known_name_is_suggested(name: str, expected: str) -> None:
    assert suggest(name, ["max_steps", "batch_tokens", "seed"]) == expected


def test_a_fault_crosses_processes_with_its_hint() -> None:
    for error in (MtkitError("a:1: wrong", "mend it"), MtkitError("a:1: wrong")):
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is MtkitError
        assert (copy.message, copy.hint, str(copy)) == (error.message, error.hint, str(error))


def test_a_fault_that_a_worker_raises() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        future = pool.submit(
            exec, "from mtkit.errors import MtkitError; raise MtkitError('a', 'b')"
        )
        with pytest.raises(MtkitError) as caught:
            future.result()
    assert (caught.value.message, caught.value.hint) == ("a", "b")
