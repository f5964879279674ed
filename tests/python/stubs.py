"""Stubs made on the spot from our proto, and the typed detail of a failed call: what every host in Python needs."""

import os
import sys
import tempfile

import grpc_tools
from grpc_tools import protoc


def make(protos):
    """Generates the modules of plimsoll.v1 and makes them importable."""
    out = tempfile.mkdtemp()
    files = sorted(f"plimsoll/v1/{name}" for name in os.listdir(f"{protos}/plimsoll/v1") if name.endswith(".proto"))
    include = os.path.join(os.path.dirname(grpc_tools.__file__), "_proto")
    assert protoc.main(["protoc", f"-I{protos}", f"-I{include}", f"--python_out={out}", f"--grpc_python_out={out}", *files]) == 0
    sys.path.insert(0, out)


def detail(error):
    """The typed detail of a failed call, from the standard status trailer."""
    from plimsoll.v1 import error_pb2

    for key, value in error.trailing_metadata():
        if key == "grpc-status-details-bin":
            status = error_pb2.StatusDetails.FromString(value)
            found = error_pb2.ErrorDetail()
            if status.details[0].Unpack(found):
                return found
    raise AssertionError("a failed call without a detail")
