"""The stages of `prepare`, and the report on them.

stages.py          a stage done once is taken over, unless something that it depends on has changed
stage_keys.py      what each stage depends on, as a digest
facts.py           what the stages note in JSON, as types
progress.py        how far a stage is

clean_corpora.py   corpora to cleaned text
cleaned_block.py   a block of pairs or lines, cleaned in whatever process
duplicates.py      exact duplicates in constant memory
text_store.py      cleaned text on disk, in named columns
carried_links.py   links between words of a pair, once the pair was repaired
align_text.py      which words of the cleaned pairs are aligned
collect_terms.py   terms of the aligned pairs, with their translations
make_tokenizer.py  the recipe's tokenizer
tokenize_text.py   cleaned pairs to tokens
piece_links.py     links between words as links between the tokens they are cut into
tokenize_blocks.py  cleaned text in one language to blocks of tokens
cut_blocks.py      documents cut into blocks
labelled_text.py   labelled texts to a text store
tokenize_examples.py  labelled texts to tokens and numbers of labels
held_out.py        development and test sets

report.py          what became of the corpora, and what a reader should look at
report_table.py    the report as tables on a terminal
report_page.py     the same as a page for a browser, and as JSON
preflight.py       what preparing would find, without writing data
"""
