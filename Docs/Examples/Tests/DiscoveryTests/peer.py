"""The protocol of Discovery on the interface eth0, for tests.

    peer.py announce NAME PORT    announces itself every second, and prints what it hears
    peer.py flood                 sends what no program should send, and says "done"
    peer.py ask COUNT             asks COUNT times at once, and prints how many announcements arrive within two seconds
"""
import os
import random
import select
import socket
import struct
import sys
import time

PORT = 7746
GROUPS = {socket.AF_INET: "239.255.77.46", socket.AF_INET6: "ff02::4d2e"}
QUERY, ANNOUNCEMENT, GOODBYE = 1, 2, 3


def open_socket(family):
    endpoint = socket.socket(family, socket.SOCK_DGRAM)
    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    index = socket.if_nametoindex("eth0")
    if family == socket.AF_INET:
        endpoint.bind(("", PORT))
        request = struct.pack("4s4si", socket.inet_aton(GROUPS[family]), b"\0" * 4, index)
        endpoint.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
        endpoint.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, request)
        return endpoint, (GROUPS[family], PORT)
    endpoint.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    endpoint.bind(("::", PORT))
    request = socket.inet_pton(family, GROUPS[family]) + struct.pack("@I", index)
    endpoint.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, request)
    endpoint.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
    return endpoint, (GROUPS[family], PORT, 0, index)


def field(tag, content):
    return bytes([tag, len(content)]) + content


def message(kind, sender, lifetime=0, name=None, port=0, more=b""):
    data = b"DSC1" + struct.pack(">BQH", kind, sender, lifetime)
    if name is not None:
        data += field(1, name.encode()) + field(2, struct.pack(">H", port))
    return data + more


def read(data):
    """Returns the kind, the sender, and the fields of a message in words."""
    assert data[:4] == b"DSC1"
    kind, sender, lifetime = struct.unpack(">BQH", data[4:15])
    words, rest = [], data[15:]
    while rest:
        tag, length = rest[0], rest[1]
        content, rest = rest[2 : 2 + length], rest[2 + length :]
        words.append(str(struct.unpack(">H", content)[0]) if tag == 2 else content.decode())
    return kind, sender, words


def say(text):
    print(text, flush=True)


endpoints = [open_socket(socket.AF_INET), open_socket(socket.AF_INET6)]
own = random.getrandbits(64)


def send(data):
    for endpoint, group in endpoints:
        endpoint.sendto(data, group)


def listen(seconds):
    """Returns the messages of others that arrive within a time."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        ready, _, _ = select.select([endpoint for endpoint, _ in endpoints], [], [], left)
        for endpoint in ready:
            data, address = endpoint.recvfrom(2000)
            kind, sender, words = read(data)
            if sender != own:
                yield kind, words, address[0]


def announce(name, port):
    while True:
        send(message(ANNOUNCEMENT, own, 3, name, port, field(3, b"color=no") + field(99, b"of a later version")))
        for kind, words, address in listen(1):
            name_of_kind = {QUERY: "query", ANNOUNCEMENT: "announcement", GOODBYE: "goodbye"}[kind]
            say(" ".join([name_of_kind, *words, "from", address]))


def flood():
    good = message(ANNOUNCEMENT, own, 60, "evil", 1)
    # Lengths that say more than there is, parts of messages, other kinds, and names that would change a terminal.
    for end in range(len(good)):
        send(good[:end])
    for place in range(15, len(good) - 2):
        for value in (0, 1, 63, 64, 127, 128, 254, 255):
            send(good[:place] + bytes([value]) + good[place + 1 :] if value > good[place] else good[:place])
    send(message(ANNOUNCEMENT, own, 60, "evil\x1b[2J", 1))
    send(message(7, own, 60, "evil", 1))
    send(good + b"\x03\xff" + b"=" * 255)
    send(good + b"\x63\xff" + b"x" * 255 + b"\x63\xff" + b"x" * 200)
    for _ in range(2000):
        send(os.urandom(random.randrange(1400)))
        send(b"DSC1\x02" + os.urandom(random.randrange(100)))
    # More programs than one host has.
    for number in range(1000):
        send(message(ANNOUNCEMENT, number, 60, f"fake {number}", 1))
    # Goodbyes for programs of others.
    for number in range(1000):
        send(message(GOODBYE, number))
    say("done")


def ask(count):
    for _ in range(count):
        send(message(QUERY, own))
    say(sum(kind == ANNOUNCEMENT for kind, _, address in listen(2) if ":" not in address))


if sys.argv[1] == "announce":
    announce(sys.argv[2], int(sys.argv[3]))
elif sys.argv[1] == "flood":
    flood()
else:
    ask(int(sys.argv[2]))
