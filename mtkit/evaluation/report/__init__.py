"""Results for people and for programs.

tables.py    scores as a table, as lines, as JSON, as Markdown
page.py      all that was found, as one HTML page; templates/ holds its text and its style
plots.py     where points, lines and bars of the page's plots lie
marks.py     words of a translation that its reference doesn't have
"""
