"""Where the units of each format are.

html.py       web pages
html_elements.py  HTML's elements, attributes and entities
xml.py        XML of any kind
markdown.py   Markdown: what its units are
markdown_blocks.py  where the text of its blocks stands in the document
markdown_masks.py   what page generators add to it, hidden from its parser
markdown_inline.py  its tokens, with their positions
markdown_writing.py its translations, read again before they are written
office.py     paragraphs of Word, PowerPoint and OpenDocument texts
office_runs.py  a translation in runs, each with its formatting
plain.py      plain text
subtitles.py  SubRip and WebVTT
bilingual.py  a text and its translation side by side: XLIFF, TMX
strings.py    strings of programs: PO files, JSON
string_markup.py  HTML in strings of any format, found in the decoded text
android.py    Android's string resources
yaml_strings.py  strings of YAML
"""
