"""Web and e-mail addresses that one side of a pair lacks."""

from mtkit.text.protected import find_addresses


def list_lacking_addresses(text: str, *others: str) -> list[str]:
    """Returns the addresses of a text that are in none of the others, in lower case.

    Args:
        text: A line.
        others: Lines that may hold the address anywhere, since "www." may be left out.
    """
    addresses = find_addresses(text.casefold())
    folded = [other.casefold() for other in others] if addresses else []
    return [address for address in addresses if not any(address in other for other in folded)]
