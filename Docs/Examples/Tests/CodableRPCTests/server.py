"""A server for RPCClientTests.swift.

    server.py PORT MODE

What the methods do is below. The mode "first" never answers "pause".
"""
import os
import socket
import sys
import threading

sys.dont_write_bytecode = True
from rpc import Peer

port, mode = int(sys.argv[1]), sys.argv[2]


def say(text):
    print(text, flush=True)


def serve(connection):
    peer = Peer(connection)
    kind, fields, _ = peer.receive()
    assert kind == "hello" and fields["version"] == 1
    peer.send({"hello": {"version": 1, "calls": 1000, "length": 1 << 20}})
    held = []
    while (message := peer.receive()) is not None:
        kind, fields, content = message
        number, method = fields["id"], fields.get("method")
        if kind == "cancel":
            say(f"cancelled {number}")
            peer.send({"failure": {"id": number, "reason": {"code": "cancelled", "message": "as you wish"}}})
        elif method == "hold":
            held.append((number, content))
            say(f"holding {len(held)}")
        elif method == "release":
            for held_number, held_content in reversed(held):
                peer.send({"answer": {"id": held_number}}, held_content)
            peer.send({"answer": {"id": number}}, content)
        elif method == "deadline":
            peer.send({"answer": {"id": number}}, fields["milliseconds"])
        elif method == "refuse":
            peer.send({"failure": {"id": number, "reason": {"code": "noMoney", "message": "you have 3 €"}}})
        elif method == "die":
            os._exit(9)
        elif method == "forever" or mode == "first":
            say(f"running {number}")
        else:
            peer.send({"answer": {"id": number}}, content)


listener = socket.create_server(("127.0.0.1", port))
say(f"listening on {listener.getsockname()[1]}")
while True:
    connection, _ = listener.accept()
    say("connected")
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
