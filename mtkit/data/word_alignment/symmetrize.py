"""Two alignments of a pair, one from each side, become one."""

from mtkit.data.sources.pharaoh import Link

_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def grow_diag_final_and(first: set[Link], second: set[Link]) -> set[Link]:
    """Returns the links of both, and those of either that complete them (Koehn et al. 2003).

    From the intersection on, a link of the union that stands beside one found so far, also
    diagonally, is added if one of its words has none yet (grow-diag); then any link, of the first
    and then of the second, of which neither word has one (final-and).
    """
    union = first | second
    found = first & second
    sources = {source for source, _ in found}
    targets = {target for _, target in found}

    def add(link: Link) -> None:
        found.add(link)
        sources.add(link[0])
        targets.add(link[1])

    added = True
    while added:
        added = False
        for source, target in sorted(found):
            for down, right in _NEIGHBOURS:
                near = (source + down, target + right)
                is_free = near[0] not in sources or near[1] not in targets
                if near in union and near not in found and is_free:
                    add(near)
                    added = True
    for links in (first, second):
        for link in sorted(links):
            if link[0] not in sources and link[1] not in targets:
                add(link)
    return found
