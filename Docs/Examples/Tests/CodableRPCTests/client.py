"""A client for the methods of RunningServer.swift. Prints "done" if all answers are right."""
import json
import socket
import struct
import sys

sys.dont_write_bytecode = True
from rpc import Peer

connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=30)
peer = Peer(connection)
LENGTH = 100_000
peer.send({"hello": {"version": 1, "calls": 10, "length": LENGTH}})
kind, fields, _ = peer.receive()
assert kind == "hello" and fields == {"version": 1, "calls": 8, "length": 1 << 20}, (kind, fields)


def call(number, method, content, milliseconds=20_000):
    peer.send({"call": {"id": number, "method": method, "milliseconds": milliseconds}}, content)


def outcome():
    kind, fields, content = peer.receive()
    if kind == "answer":
        return fields["id"], content
    assert kind == "failure", kind
    return fields["id"], fields["reason"]["code"]


# The first call waits, and is overtaken by the others.
call(1, "gate", "a")
call(2, "sum", [1, 2.5, -7])
call(3, "nothing", None)
call(4, "refuse", "x")
call(5, "fail", "x")
call(6, "sum", ["one"])
call(8, "gate", "b", milliseconds=50)
outcomes = dict(outcome() for _ in range(6))
expected = {2: -3.5, 3: "unknownMethod", 4: "noMoney", 5: "failed", 6: "invalidArgument", 8: "timedOut"}
assert outcomes == expected, outcomes

peer.send({"cancel": {"id": 1}})
assert outcome() == (1, "cancelled")
# The client does not wait for these: they have their answers.
peer.send({"cancel": {"id": 1}})
peer.send({"cancel": {"id": 99}})

text = "Zürich \"🚲\"\n\0"
call(10, "echo", text)
assert outcome() == (10, text)
call(11, "echo", "x" * LENGTH)
assert outcome() == (11, "tooLong")

# A message that arrives in single bytes.
body = json.dumps({"content": "slowly", "head": {"call": {"milliseconds": 20_000, "method": "echo", "id": 12}}}).encode()
for byte in struct.pack(">I", len(body)) + body:
    connection.sendall(bytes([byte]))
assert outcome() == (12, "slowly")
connection.close()
print("done")
