"""What spans rooms: each front door is the module named like the command that calls it.

init.py               a shipped recipe becomes a project's own
prepare.py            data made, and never swapped under checkpoints
plan.py               the cost of a training, worked out
accelerators.py       kinds of GPU
train.py              training in this process, or in several
local_processes.py    how many processes train on a CPU
hardware.py           the hardware that a run trains on
translate.py          a run's model, or a model folder, opened for translation
score.py              test sets translated and scored
translation_files.py  a test set's translation in the workspace
score_files.py        files of translations scored
system_names.py       short names of the systems whose files are scored
score_report.py       scores as a page, a table or JSON
export.py             a run's model, or a model folder, exported for another engine
run.py                the whole road

Nothing is imported here: `mtkit init` needs no torch.
"""
