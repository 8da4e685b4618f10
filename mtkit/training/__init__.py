"""From data to checkpoints to one model.

train.py         the front door: opens everything, resumes, runs the loop, fills `model/`
plan.py          what a training will be: batches, memory, time; `--dry-run`
loop.py          update by update; what a checkpoint, a fault and a stop are
update.py        one update: accumulated, agreed on, summed, made
learner.py       what an update changes: model, optimizer, moving average
objective.py     what is minimised, behind a Protocol; translation is one
loss.py          output projection and label-smoothed cross entropy, fused in chunks
start_from.py    the weights of a trained model as a start: fine-tuning
frozen.py        parts whose weights stay as they are
moments.py       Adam's moments in a checkpoint's file
optimizer.py     Adam
schedule.py      the learning rate of each step
checkpoint.py    saved, digested, listed, kept, loaded
same_run.py      whether checkpoints are of a recipe's run
validation.py    loss and score on the development set, by the path that `translate` uses

distributed.py   processes: joined, gradients summed
launch.py        torchrun: workers started, started again, what they died of
watch.py         who is alive, who is stuck
stopping.py      Ctrl-C and SIGTERM
memory.py        how much there is, and whether there is none left

metrics.py       metrics.jsonl
series.py        what its picture shows
curves.py        its picture
trackers.py      TensorBoard, Weights & Biases
progress.py      what a person sees meanwhile
summary.py       what a person is told at the end
units.py         time and memory in words

averaging/       several checkpoints become one model: `mtkit average`
"""
