"""What spans packages: the front door of a command is the module of its name.

Nothing is imported here: `mtkit init` needs no torch.
"""
