"""Checks for problems in the text that make scores meaningless or incomparable.

Each check looks for one problem. Some can't be seen in the text, such as two good translations that
are swapped.
"""
