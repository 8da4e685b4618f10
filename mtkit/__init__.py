"""mtkit: a parallel corpus goes in; a fast, scored, deployable translator comes out.

Rooms, from the top down; each imports only from those below it, and rooms on one line never meet:

    cli          the commands: parse, call, render
    pipeline     what spans rooms: score, run, init
    training     data to checkpoints
    inference    a model and text to translations
    data | model | evaluation
    recipe       what a run is
    workspace | console | errors
"""

__version__ = "0.1.0"
