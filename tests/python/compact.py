"""Compacts a history over gRPC, reads and searches what was cut, and undoes it: what a host in another language does.

usage: compact.py ADDRESS PROTO_DIR  < one JSON object {"format", "model", "body", "target", "pattern"}
prints one JSON object: {"after", "undone", "hits", "foreign", "floor", "parts", "rule"}
"""

import json
import sys

import grpc

import stubs

address, protos = sys.argv[1:3]
stubs.make(protos)

from plimsoll.v1 import compact_pb2 as pb, compact_pb2_grpc, count_pb2, error_pb2, request_pb2  # noqa: E402

channel = grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", 64 << 20)])
service = compact_pb2_grpc.CompactServiceStub(channel)
given = json.load(sys.stdin)
tenant = [("plimsoll-tenant", "python")]


def plan(body, **more):
    payload = request_pb2.Payload(format=request_pb2.Format.Value(given["format"]), body=body.encode())
    model = request_pb2.ModelChoice(name=given["model"])
    return pb.PlanCompactionRequest(request=count_pb2.CountRequest(payload=payload, model=model), **more)


def refused(call, *arguments, **more):
    try:
        call(*arguments, **more)
    except grpc.RpcError as error:
        return stubs.detail(error)
    raise AssertionError("a call that should have failed")


answer = service.Compact(pb.CompactRequest(plan=plan(given["body"], target=given["target"])), metadata=tenant, timeout=60)
assert answer.WhichOneof("outcome") == "compacted", answer
made = answer.compacted
undone = service.Undo(pb.UndoRequest(id=made.undo), metadata=tenant, timeout=60)
found = service.SearchPage(pb.SearchPageRequest(ref=made.undo, pattern=given["pattern"]), metadata=tenant, timeout=60)
hit = found.hits[0]
page = service.ReadPage(pb.ReadPageRequest(ref=hit.ref, page=hit.page), metadata=tenant, timeout=60)
assert hit.text in page.text
foreign = refused(service.ReadPage, pb.ReadPageRequest(ref=hit.ref), metadata=[("plimsoll-tenant", "other")], timeout=60)
tiny = service.Compact(pb.CompactRequest(plan=plan(given["body"], target=1)), metadata=tenant, timeout=60).cant_shrink
broken = json.loads(given["body"])
broken["messages"].insert(1, {"role": "tool", "tool_call_id": "nobody", "content": "4"})
invalid = refused(service.Compact, pb.CompactRequest(plan=plan(json.dumps(broken), target=given["target"])), timeout=60)
print(json.dumps({
    "after": made.after,
    "undone": undone.payload.body.decode(),
    "hits": len(found.hits),
    "foreign": error_pb2.ErrorKind.Name(foreign.kind),
    "floor": tiny.floor,
    "parts": len(tiny.parts),
    "rule": [finding.rule for finding in invalid.findings if finding.severity == error_pb2.SEVERITY_ERROR],
}))
