"""The protocol of CodableRPC: a length in four bytes, the highest first, and then JSON."""
import json
import struct


class Peer:
    def __init__(self, connection):
        self.connection = connection

    def send(self, head, content=None):
        body = json.dumps({"head": head, "content": content}).encode()
        self.connection.sendall(struct.pack(">I", len(body)) + body)

    def receive(self):
        """Returns the kind of a message, its fields, and its content; None at the end of the stream."""
        prefix = self.exactly(4)
        if prefix is None:
            return None
        message = json.loads(self.exactly(struct.unpack(">I", prefix)[0]))
        ((kind, fields),) = message["head"].items()
        return kind, fields, message["content"]

    def exactly(self, count):
        data = b""
        while len(data) < count:
            part = self.connection.recv(count - len(data))
            if not part:
                return None
            data += part
        return data
