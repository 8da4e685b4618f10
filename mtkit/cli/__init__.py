"""The commands: parse, call an entry point, render.

A command imports the packages that it needs when it runs: `mtkit --help` doesn't load torch,
pydantic or sacrebleu.
"""
