"""Keeps links between words through repairs of the pairs."""

from mtkit.data.sources.pharaoh import Link
from mtkit.text.words import Span, find_between_spaces


def carry_links(
    links: set[Link], before: tuple[str, str], after: tuple[str, str]
) -> set[Link] | None:
    """Returns a pair's links after repairs; None if they can't be determined.

    Words are separated by spaces. If a repair adds or removes spaces, words are matched by
    characters.
    """
    if before == after or not links:
        return links
    sources, targets = map(_map_words, before, after)
    if sources is None or targets is None:
        return None
    return {
        (source, target)
        for old_source, old_target in links
        for source in sources[old_source]
        for target in targets[old_target]
    }


def _map_words(before: str, after: str) -> list[list[int]] | None:
    """Returns which words each word of a text became; None if unclear."""
    old, new = find_between_spaces(before), find_between_spaces(after)
    if [before[slice(*span)] for span in old] == [after[slice(*span)] for span in new]:
        return [[index] for index in range(len(old))]
    of_old, of_new = _list_owners(before, old), _list_owners(after, new)
    if [character for character, _ in of_old] != [character for character, _ in of_new]:
        # Other characters: an equal number of words is the best evidence left.
        return [[index] for index in range(len(old))] if len(old) == len(new) else None
    found: list[list[int]] = [[] for _ in old]
    for (_, old_word), (_, new_word) in zip(of_old, of_new, strict=True):
        if new_word not in found[old_word]:
            found[old_word].append(new_word)
    return found


def _list_owners(text: str, words: list[Span]) -> list[tuple[str, int]]:
    """Returns each character that isn't a space of any kind, with its word."""
    return [
        (character, index)
        for index, (start, end) in enumerate(words)
        for character in text[start:end]
        if not character.isspace()
    ]
