"""What spans rooms: each front door is the module named like the command that calls it.

init.py         a shipped recipe becomes a project's own
prepare.py      data made, and never swapped under checkpoints
plan.py         what a training will take, worked out
model_costs.py  weights, operations and memory of a network, from its recipe
accelerators.py kinds of GPU
train.py        training in this process, or in several
translate.py    a run's model, or a model folder, opened for translation
score.py        test sets translated and scored
score_files.py  a file of translations scored
export.py       a run's model, or a model folder, exported for another engine
run.py          the whole road
hardware.py     what a run trains on

Nothing is imported here: `mtkit init` needs no torch.
"""
