"""Results for people and for programs.

tables.py    scores as a table, as lines, as JSON, as Markdown
page.py      all that was found, as one HTML page; templates/ holds its text and its style
plots.py     the page's plots, drawn by matplotlib as SVG
marks.py     words of a translation that its reference doesn't have
"""
