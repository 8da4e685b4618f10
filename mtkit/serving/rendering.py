"""Answers as JSON, made piece by piece where they are long."""

import asyncio
import json
from typing import Any

_BYTES_AT_ONCE = 256 << 10


def to_json(content: Any) -> bytes:
    """Returns content as JSON."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


async def to_json_by_turns(content: dict[str, Any]) -> bytes:
    """Returns an object as JSON; between the items of its lists others have their turn."""
    fields = []
    for key, value in content.items():
        if isinstance(value, list):
            items, num_bytes = [], 0
            for item in value:
                items.append(to_json(item))
                num_bytes += len(items[-1])
                if num_bytes > _BYTES_AT_ONCE:
                    num_bytes = 0
                    await asyncio.sleep(0)
            rendered = b"[%s]" % b",".join(items)
        else:
            rendered = to_json(value)
        fields.append(b"%s:%s" % (to_json(key), rendered))
    return b"{%s}" % b",".join(fields)
