"""The commands: parse, call a front door, render.

A command imports the rooms that it needs when it runs: `mtkit --help` loads neither torch nor
pydantic nor sacrebleu.
"""
