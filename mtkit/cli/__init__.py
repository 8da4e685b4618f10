"""The commands: parse, call a front door, render.

app.py      the `mtkit` command: its subcommands, and faults turned into lines and exit codes
options.py  options that several commands share, and the recipe and workspace they name
init.py, prepare.py, plan.py, train.py, average.py, translate.py, align.py, attend.py, export.py,
import_model.py, score.py, serve.py, run.py  a command each

A command imports the rooms that it needs when it runs: `mtkit --help` loads neither torch nor
pydantic nor sacrebleu.
"""
