"""Trims recorded chat histories with LiteLLM and LangChain at five targets and counts what their providers would refuse.

    pip install litellm langchain-core
    python scripts/compaction_peers.py ../shared/histories

Sizes are by LiteLLM's own counter for all, so that nobody is measured by another's ruler. A result is invalid when a tool result
has no call right before it or a call has no result. The table stands in docs/compaction.md; the same histories and targets are those of
tests/compact_recorded.rs.
"""

import glob
import gzip
import json
import sys

from langchain_core.messages import convert_to_messages, convert_to_openai_messages
from langchain_core.messages import trim_messages as langchain_trim
from litellm.utils import token_counter
from litellm.utils import trim_messages as litellm_trim

TARGETS = (90, 70, 50, 30, 15)


def size(messages):
    return token_counter(model="gpt-4o", messages=messages)


def invalid(messages):
    open_calls, wrong = set(), 0
    for message in messages:
        if message["role"] == "tool":
            wrong += message.get("tool_call_id") not in open_calls
            open_calls.discard(message.get("tool_call_id"))
        else:
            wrong += len(open_calls)
            open_calls = {call["id"] for call in message.get("tool_calls") or []}
    return wrong + len(open_calls) > 0


def litellm(messages, target):
    return litellm_trim([dict(m) for m in messages], model="gpt-4o", max_tokens=target, trim_ratio=1.0)


def langchain(messages, target, **more):
    def count(list_):
        return size(convert_to_openai_messages(list_))

    kept = langchain_trim(
        convert_to_messages(messages), max_tokens=target, token_counter=count, strategy="last", include_system=True, **more
    )
    return convert_to_openai_messages(kept)


def langchain_careful(messages, target):
    return langchain(messages, target, start_on="human", end_on=("human", "tool"))


def main(folder):
    tally = {}
    for path in sorted(glob.glob(f"{folder}/*.json.gz")):
        with gzip.open(path) as file:
            messages = json.load(file)["messages"]
        newest = [m["content"] for m in messages if m["role"] == "user"][-1]
        for percent in TARGETS:
            target = size(messages) * percent // 100
            for trim in (litellm, langchain, langchain_careful):
                row = tally.setdefault(trim.__name__, {"runs": 0, "invalid": 0, "over target": 0, "nothing left": 0, "task lost": 0})
                out = trim(messages, target)
                row["runs"] += 1
                row["invalid"] += invalid(out)
                row["over target"] += size(out) > target
                row["nothing left"] += not [m for m in out if m["role"] != "system"]
                row["task lost"] += not any(m["role"] == "user" and m.get("content") == newest for m in out)
    for name, row in tally.items():
        print(name, row)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "../shared/histories")
