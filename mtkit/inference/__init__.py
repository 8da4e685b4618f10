"""A model and text in, translations out: segment, encode, search, rerank, join.

translate.py        the front door: a translator of lines, for Python and the command line
open_translator.py  what answers lines, opened: model folders checked, an engine chosen
translation.py      requests and translations; warnings, and the error of a line
line_translator.py  the steps of a translation, in order
search_parts.py     lines' parts searched, again where a term is missing, and ranked
outputs.py          a search's outputs checked, and as text
score_lines.py      given translations scored
paragraphs.py       lines of several sentences: each translated, and joined as they stood
protect.py          translations checked for what they must keep, and looked for again
masking.py          pieces of a line replaced by symbols, and put back
terms.py            terms of a glossary: searched for where they are missing, and reported
request_terms.py    which terms a line has: its request's, or the translator's glossary
required_phrases.py text of a line that its output must contain, in target tokens
copied_lines.py     lines without a letter or a digit, which are copied
segment.py          cuts a line that is too long into parts, and joins their translations
encode.py           a line in tokens, in parts where it is too long
predict_text.py     a language model's probability of each line of a text
predict_hidden.py   a masked language model's probability of hidden tokens
batching.py         sentences of like length, searched in batches
streams/            a stream of lines to a stream of translations
search/             greedy search, beam search, sampling; scoring of given outputs
engines/            engines that run the network
classify.py         lines to labels, by a classifier
attention.py        what a translator attends to, and what each head does on average
align.py            links between the words of a line and of its translation
learned_aligner.py  the same by a word aligner that `prepare` learned
flag_lines.py       flags on lines' translations
attention_report/   that as a page, a picture and numbers
parse.py            what of a parser is special: its sources, and trees of its outputs
identity.py         identifies what translates: model, engine, device and precision
export.py           the front door of `mtkit export`: a model folder for another engine
export_transformers.py  that of `--format transformers`
transformers_parity.py  checks that transformers then translates as the model does
export_argos.py     that of `--format argos`
compared_languages.py  the languages that a model of several is compared on
engine_comparison.py  compares an export with its model: outputs, quality, speed

An engine's library is loaded with the engine: this file, translate.py and open_translator.py import
neither torch nor CTranslate2.
"""
