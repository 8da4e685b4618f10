"""Corpora as pairs of lines or as lines of one language, whatever they lie in, in constant memory.

corpora.py      the front door: blocks or pairs of any corpus, checked, and the files it lies in
blocks.py       what a corpus is cut into for other processes, and text decoded there
lines.py        lines out of a text file, compressed or not
files.py        two text files, aligned by line
pharaoh.py      word alignments beside them
broken_lines.py  lines that can't be read, reported together
columns.py      which columns hold the two sides, and what is said where there are none
tsv.py          tab-separated text
json_lines.py   an object a line
parquet.py      Parquet files, and tables of Arrow
data_sets.py    what the `datasets` library can stream
published.py    test sets that sacreBLEU knows by name
tmx.py          translation memories
moses_zip.py    archives as OPUS hands them out

one_language.py  the front door of text in one language, with the documents that it is of
sentences.py     its lines, and how documents go on from one block to the next
text_files.py    text files
text_tables.py   tab-separated text, JSON lines and Parquet

labelled.py        texts with labels, in the same files
rows.py            what they and planted faults are read as
planted_faults.py  pairs, and beside each the same with a fault

treebank.py  trees, as pairs of a sentence and its tree's symbols
"""
