"""Asks for the addresses of a name over mDNS until it is killed, and prints what it hears.

    ask.py INTERFACE NAME

It prints "answer ADDRESS" for an answer to it, and "group ADDRESS LIFETIME" for what all hosts hear.
"""
import select
import socket
import struct
import sys
import time

GROUP, PORT = "224.0.0.251", 5353
interface, name = sys.argv[1], sys.argv[2]
request = struct.pack("4s4si", socket.inet_aton(GROUP), b"\0" * 4, socket.if_nametoindex(interface))

member = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
member.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
member.bind(("", PORT))
member.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
member.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, request)
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, request)

label = name.encode()
wire = bytes([len(label)]) + label + b"\x05local\0"
question = struct.pack("!6H", 77, 0, 1, 0, 0, 0) + wire + struct.pack("!2H", 1, 1)


def records(message):
    """The IPv4 addresses of an answer, with their lifetimes."""
    count = struct.unpack("!H", message[6:8])[0]
    place = message.find(wire, 12) if message[5] == 0 else message.find(wire, 12 + len(wire))
    for _ in range(count):
        place += len(wire)
        kind, _, lifetime, length = struct.unpack("!HHIH", message[place:place + 10])
        data = message[place + 10:place + 10 + length]
        place += 10 + length
        if kind == 1:
            yield socket.inet_ntoa(data), lifetime


while True:
    client.sendto(question, (GROUP, PORT))
    member.sendto(question, (GROUP, PORT))
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        for ready in select.select([member, client], [], [], max(0, end - time.monotonic()))[0]:
            message = ready.recv(9000)
            if len(message) < 12 or not message[2] & 0x80:
                continue
            for address, lifetime in records(message):
                print("answer " + address if ready is client else f"group {address} {lifetime}", flush=True)
