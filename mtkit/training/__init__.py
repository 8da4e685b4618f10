"""From data to checkpoints to one model.

train.py         the front door: opens everything, resumes, runs the loop, fills `model/`
loop.py          update by update; what a checkpoint, a validation and a stop are
objective.py     what is minimised, behind a Protocol; translation is one
loss.py          output projection and label-smoothed cross entropy, fused in chunks
start_from.py    the weights of a trained model as a start: fine-tuning
frozen.py        parts whose weights stay as they are
optimizer.py     Adam
schedule.py      the learning rate of each step
distributed.py   processes: torchrun, gradient sums
checkpoint.py    saved, listed, kept, loaded
validation.py    loss and score on the development set, by the path that `translate` uses
metrics.py       metrics.jsonl and the learning curve
progress.py      what a person sees meanwhile
average.py       the front door of `mtkit average`
"""
