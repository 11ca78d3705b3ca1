"""LoadGen's logs of replies, changed in one place: text in, text out."""

import json
import re


def with_entries(change):
    """Return a change of a log's text that changes its entries, a list of dictionaries, in place."""

    def changed(text):
        entries = json.loads(text)
        change(entries)
        return "[\n" + ",\n".join(json.dumps(each) for each in entries) + "\n]\n"

    return changed


def with_one(place, **fields):
    """Return a change of one entry."""
    return with_entries(lambda entries: entries[place].update(fields))


def tokens(*values):
    """Return 64-bit tokens as a log has them."""
    return b"".join(value.to_bytes(8, "little") for value in values).hex().upper()


def repeated_indices(entries):
    """Return the places of entries whose sample was met before."""
    seen, found = set(), []
    for place, entry in enumerate(entries):
        if entry["qsl_idx"] in seen:
            found.append(place)
        seen.add(entry["qsl_idx"])
    return found


def counts(text):
    """Return the numbers of ``verify_accuracy.txt`` by name."""
    return {name: int(value) for name, value in re.findall(r"^(\w+) = (\d+)$", text, re.MULTILINE)}
