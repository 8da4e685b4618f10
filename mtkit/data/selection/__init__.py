"""Text that is like one's own, or pairs that are translations, by models, which come from above.

language_models.py  what runs the models, as this room sees it; which a recipe names
differences.py      a difference or a probability of every row of a text store, on disk
ranking.py          values at given ranks of a file of numbers, exact and in constant memory
select_rows.py      the rows that are kept, and what a reader should see of the ranking
estimate.py         the same of a sample, without writing data
"""
