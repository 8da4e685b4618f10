"""Files and markup around inference: text is taken out of a document, translated and put back.

translate_file.py   the front door: a file, bytes or text of a known format
translate_units.py  a document's units translated, and the document put together again
document.py         a document: its text, its units, the nodes in them
units.py            texts and tags in the order of a document become units
plain_text.py       a unit's text as a translator sees it
atoms.py            words and signs of a text, and which stand for which
placement.py        where a translation's tags go
line_breaks.py      where line breaks go in a translation
sign_edges.py       which signs at the edges of a tag's words belong to it
crossings.py        how many links cross each gap of a translation
protected_places.py where protected texts stand in a translation
render.py           where the tags of a unit go in its translation, in order
write_unit.py       text and tags written in order
spelling.py         how a unit's characters are written
sentences.py        a translator of lines as one of paragraphs
encodings.py        bytes to text and back, with the encoding that a document declares
skeletons.py        a document's markup as another parser sees it
html_skeletons.py   of pages and of HTML in strings
xml_skeletons.py    of XML, office documents, XLIFF and TMX
report.py           what became of a document's texts
archives.py         documents that are zip archives of XML
archive_parts.py    which part is the main one, and text in parts that aren't translated
xml_tokens.py       XML by its tokens
formats/            where the units of each format are
"""
