"""The entry point of each command is the module of its name.

That of `mtkit average` is training/averaging/average.py. Nothing is imported here: `mtkit init`
needs no torch.
"""
