"""From data to checkpoints to one model.

train.py           the front door: opens everything, resumes, runs the loop, releases the model
plan.py            what a training will be: batches, memory, time; `--dry-run`
training_run.py    a run's recipe, workspace and data
build.py           learner, objective and log of a run
loop.py            update by update; what a checkpoint, a fault and a stop are
update.py          one update: accumulated, agreed on, summed, made; the largest pass, by a probe
learner.py         what an update changes: model, optimizer, moving average; what it does not
objectives/        what is minimised; a file each
translation_loss.py  the loss of a translator's batch
text_loss.py       the losses of batches of text: causal and masked language models
label_loss.py      the loss of labelled texts
loss.py            output projection and label-smoothed cross entropy, fused in chunks
precision.py       which arithmetic updates are computed in, and the weights in it
start_from.py      the weights of a trained model as a start: fine-tuning
piece_vectors.py   vectors of new pieces, from those that spell them
whole_weights.py   all weights of a model from what LoRA learned beside its base
optimizer.py       Adam
schedule.py        the learning rate of each step
checkpoint.py      a checkpoint: the state of training, metadata, digests
checkpoint_folder.py  a run's checkpoints: saved, listed, kept, restored
moments.py         an optimizer's moments as tensors of a checkpoint
same_run.py        whether checkpoints are of a recipe's run
validation.py      what is measured on the development set, whatever the model
translation_validation.py  loss and scores, on the path that `translate` uses
text_validation.py  the same of language models: loss, perplexity, accuracy
label_validation.py  the same of classifiers: loss, accuracy, F1
release.py         checkpoints in `model/`: the best one, at the end
alignment_choice.py  the head that alignments are read from, chosen on the development set

distributed.py     processes: joined, gradients summed
launch.py          torchrun: workers started, started again, what they died of
watch.py           who is alive, who is stuck
stopping.py        Ctrl-C and SIGTERM
memory.py          how much is held, and whether there is none left

meter.py           loss and speed between two log lines
metrics.py         what the lines of metrics.jsonl say
metrics_log.py     metrics.jsonl as it is written, and all that is fed from it
series.py          what its picture shows
curves.py          its picture
trackers.py        TensorBoard, Weights & Biases
progress.py        what a person sees meanwhile
summary.py         what a person reads at the beginning and at the end

averaging/         several checkpoints become one model: `mtkit average`
"""
