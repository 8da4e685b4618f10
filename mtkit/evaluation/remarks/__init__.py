"""Checks for problems in the text that would make a score meaningless.

Each check looks for one problem that makes scores meaningless or incomparable. Some can't be seen
in the text, such as two good translations that are swapped.
"""
