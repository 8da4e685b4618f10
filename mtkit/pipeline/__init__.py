"""What spans rooms: each front door is the module named like the command that calls it.

init.py              a shipped recipe becomes a project's own
prepare.py           data made, and never swapped under checkpoints
plan.py              what a training will take, worked out
accelerators.py      kinds of GPU
train.py             training in this process, or in several
hardware.py          what a run trains on
local_processes.py   in how many processes a training on a CPU runs
translate.py         a run's model, or a model folder, opened for translation
score.py             test sets translated and scored
translation_files.py test sets with their translations, in a workspace
score_files.py       a file of translations scored
score_report.py      results of scoring as a file
system_names.py      short names for the systems whose files are scored
export.py            a run's model, or a model folder, exported for another engine
run.py               the whole road

Nothing is imported here: `mtkit init` needs no torch.
"""
