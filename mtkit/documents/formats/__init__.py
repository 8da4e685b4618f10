"""Where the units of each format are.

html.py       web pages
xml.py        XML of any kind
markdown.py   Markdown: blocks; markdown_blocks.py, _inline.py, _writing.py: positions, markup, text
office.py     paragraphs of Word, PowerPoint and OpenDocument texts
plain.py      plain text
subtitles.py  SubRip and WebVTT
bilingual.py  a text and its translation side by side: XLIFF, TMX
strings.py    strings of programs: PO files, JSON
yaml_strings.py  strings of YAML
"""
