"""Where the units of each format are.

html.py       web pages
xml.py        XML of any kind
markdown.py, markdown_blocks.py, markdown_inline.py, markdown_writing.py
              Markdown: its units; where blocks begin and end; markup in a line; text written back
office.py     paragraphs of Word, PowerPoint and OpenDocument texts
plain.py      plain text
subtitles.py  SubRip and WebVTT
bilingual.py  a text and its translation side by side: XLIFF, TMX
strings.py    strings of programs: PO files, JSON
yaml_strings.py  strings of YAML
"""
