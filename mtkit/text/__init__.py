"""Text by itself: what is written in a line, and its pieces, whatever they are used for.

sentences.py                where the sentences of a text begin and end
addresses.py                web and e-mail addresses
numbers.py                  whether two lines hold the same numbers
numerals.py                 numbers written with units: 12万, 三百二十, 1.2 million
placeholders.py             placeholders of programs: {name}, %s, $NAME
protected.py                pieces that a translation must keep, and which of them it lost
glossary.py                 terms with their translations, read from a file and found in text
phrases.py                  phrases in the words of a text, found by an automaton
term_forms.py               which terms a translation has, as given or inflected
term_annotation.py          sources that name translations of their words
normalization.py            SentencePiece's normalisation of Unicode, without a model's pieces
punctuation.py              Moses' normalisation of punctuation

token_ids.py                ids of the special tokens, in every vocabulary
vocabulary.py               pieces and their ids, whatever cuts text into them
shortlist.py                target pieces that a source may need
languages.py                the languages of a translator of several, and their pieces
words.py                    words of a text by their characters
scripts.py                  the scripts that languages are written in
widths.py                   how much text there is, whatever script it is written in
language_identification.py  which language a text is in, by py3langid
sentencepiece_segmenter.py  text to SentencePiece's pieces and back, by mtkit's ids
segmentations.py            other segmentations of a sentence than the best, drawn at random
tokenizer.py                text of two languages to token ids and back
tokenizer_files.py          the files of a tokenizer
marks.py                    tokens beside a text: tags before a source, pieces of languages
train_tokenizer.py          trains SentencePiece models
extend_vocabulary.py        adds symbols to the vocabularies of a tokenizer
learn_pieces.py             pieces of new text for a vocabulary that is there
trim_vocabulary.py          cuts a vocabulary to the pieces that some text uses
arrange_pieces.py           a SentencePiece model whose pieces have another vocabulary's ids
foreign_rows.py             where the pieces of an imported model come from
merges.py                   a SentencePiece model as a list of merges

trees/                      constituency trees: read, written as symbols, made of symbols again
"""
