import pickle

from mtkit.inference.request import LineError


def test_a_line_s_fault_crosses_processes():
    copy = pickle.loads(pickle.dumps(LineError(7, "wrong", "mend it")))
    assert (copy.message, copy.hint, copy.line) == ("input line 7: wrong", "mend it", 7)
