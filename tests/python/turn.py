"""Follows answers over gRPC as a host in another language does: raw bytes in any cut in, progress and the report out.

usage: turn.py ADDRESS PROTO_DIR  < JSON lines {"format", "request", "answer"}
prints one JSON line each: {"ended_well", "text", "pieces", "verdicts", "faults", "output", "single"}
"""

import json
import sys

import grpc

import stubs

address, protos = sys.argv[1:3]
stubs.make(protos)

from plimsoll.v1 import request_pb2, turn_pb2, turn_pb2_grpc  # noqa: E402

channel = grpc.insecure_channel(address)
turns = turn_pb2_grpc.TurnServiceStub(channel)


def steps(line, cut):
    judging = turn_pb2.Judging(request=line["request"].encode(), time_ms=7)
    form = request_pb2.Format.Value(line["format"])
    yield turn_pb2.FollowStreamRequest(start=turn_pb2.FollowStart(format=form, judging=judging, granted=1000, deltas=True))
    answer = line["answer"].encode()
    for at in range(0, len(answer), cut):
        yield turn_pb2.FollowStreamRequest(data=answer[at : at + cut])


def follow(line, cut):
    pieces = ""
    for answer in turns.FollowStream(steps(line, cut), timeout=60):
        if answer.WhichOneof("answer") == "report":
            report = answer.report
            continue
        pieces += "".join(d.text for d in answer.progress.deltas if d.kind == turn_pb2.DELTA_KIND_TEXT)
    return pieces, report


for line in map(json.loads, sys.stdin):
    pieces, report = follow(line, 50)
    assert follow(line, 7) == (pieces, report), "the cut decides nothing"
    judging = turn_pb2.Judging(request=line["request"].encode(), time_ms=7)
    form = request_pb2.Format.Value(line["format"])
    single = turns.InspectTurn(turn_pb2.InspectTurnRequest(format=form, answer=line["answer"].encode(), judging=judging), timeout=60)
    print(json.dumps({
        "ended_well": report.ended_well,
        "text": report.choices[0].text if report.choices else "",
        "pieces": pieces,
        "verdicts": [turn_pb2.Verdict.Name(call.verdict) for call in report.calls],
        "faults": [[turn_pb2.FaultKind.Name(fault.kind), fault.offset if fault.HasField("offset") else None] for fault in report.faults],
        "output": report.usage.output if report.HasField("usage") else None,
        "single": single == report,
    }))

outcome = turn_pb2.ToolOutcome(call_id="c", name="read", text="no such file", is_error=True)
sent = turns.ToolResults(turn_pb2.ToolResultsRequest(format=request_pb2.FORMAT_CHAT, outcomes=[outcome]), timeout=60)
assert json.loads(sent.messages_json[0]) == {"role": "tool", "tool_call_id": "c", "content": "Error: no such file"}
try:
    turns.ToolResults(turn_pb2.ToolResultsRequest(outcomes=[outcome]), timeout=60)
    raise AssertionError("a format that is not named passes")
except grpc.RpcError as error:
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT and stubs.detail(error).message
