"""What `prepare` does, stage by stage, and what it says of it.

stages.py         what is done is kept, what depends on something new is done again
stage_keys.py     what each stage depends on, as a digest
workers.py        a function over many items in several processes, results in order
progress.py       how far a stage is

clean_corpora.py  corpora to cleaned text
cleaned_block.py  a block of pairs, cleaned in whatever process
duplicates.py     exact duplicates in constant memory
text_store.py     cleaned text on disk
tokenize_text.py  cleaned text to tokens

report.py         what became of the corpora: table, JSON, warnings
report_page.py    the same as a page for a browser
preflight.py      what preparing would find, without writing data
"""
