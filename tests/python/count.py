"""Counts bodies over gRPC with stubs made on the spot from our proto: what a host in another language does.

usage: count.py ADDRESS PROTO_DIR  < JSON lines {"format", "body"}
prints one JSON line each: {"total", "sum", "confidence", "bound", "model"} or {"code", "kind", "path", "suggestions"}
"""

import json
import sys

import grpc

import stubs

address, protos = sys.argv[1:3]
stubs.make(protos)

from plimsoll.v1 import count_pb2, count_pb2_grpc, error_pb2, model_pb2, model_pb2_grpc, request_pb2  # noqa: E402

channel = grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", 64 << 20)])
counts = count_pb2_grpc.CountServiceStub(channel)
models = model_pb2_grpc.ModelServiceStub(channel)


def request(line):
    payload = request_pb2.Payload(format=request_pb2.Format.Value(line["format"]), body=line["body"].encode())
    return count_pb2.CountRequest(payload=payload)


lines = [json.loads(line) for line in sys.stdin]
single = []
for line in lines:
    try:
        answer = counts.Count(request(line), timeout=60)
        single.append(answer.total)
        print(json.dumps({
            "total": answer.total,
            "sum": sum(part.tokens for part in answer.parts),
            "confidence": count_pb2.Confidence.Name(answer.confidence),
            "bound": answer.bound if answer.HasField("bound") else None,
            "model": answer.model,
        }))
    except grpc.RpcError as error:
        found = stubs.detail(error)
        single.append(None)
        print(json.dumps({
            "code": error.code().name,
            "kind": error_pb2.ErrorKind.Name(found.kind),
            "path": found.path if found.HasField("path") else None,
            "suggestions": list(found.suggestions),
        }))

batch = counts.CountBatch((count_pb2.CountBatchRequest(id=str(i), request=request(line)) for i, line in enumerate(lines)), timeout=60)
answers = [(answer.id, answer.count.total if answer.WhichOneof("result") == "count" else None) for answer in batch]
assert answers == [(str(i), total) for i, total in enumerate(single)], answers
assert len(models.ListModels(model_pb2.ListModelsRequest()).models) >= 400
assert models.GetModel(model_pb2.GetModelRequest(name="openrouter/openai/gpt-4o")).model.id == "gpt-4o"
