"""What spans packages: the front door of a command is the module of its name.

init.py               a shipped recipe becomes a project's own
prepare.py            data preparation, never under the checkpoints of another run
select_text.py        the language models by which preparation selects text
plan.py               estimates the cost of a training
accelerators.py       kinds of GPU
train.py              training in this process, or in several
local_processes.py    how many processes train on a CPU
hardware.py           the hardware that a run trains on
engine_choice.py      which engine translates with a run's model
translate.py          a run's model, or a model folder, opened for translation
remote.py             a server as the model of translate
translate_documents.py  what `mtkit translate` does with a document
classify.py           a classifier opened for translate and score
score.py              test sets translated and scored
translation_files.py  a test set's translation in the workspace
score_files.py        files of translations scored
score_flags.py        files of translations flagged, without references
system_names.py       short names of the systems whose files are scored
score_report.py       scores as a page, a table or JSON
align.py              given translations aligned by the word aligner of a model folder
attend.py             what a model attends to, measured and shown
export.py             a run's model, or a model folder, exported for another engine
import_model.py       a public translator as a model folder
trim_model.py         the same with the pieces alone that some text uses
serve.py              models made into a server
run.py                all steps, from corpora to scores

Nothing is imported here: `mtkit init` needs no torch.
"""
