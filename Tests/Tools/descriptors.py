"""Usage: descriptors.py SOCKCAT LIMIT pool|reactor RUN

Runs an echo server that may have LIMIT descriptors, and floods it with three times as many clients for some seconds. Then the
clients leave, and the server must answer another one. In runs with an even number, only the descriptors limit the connections.
Prints "LIMIT PLACE RUN survived REFUSED ANSWERS"; if the server did not survive, what happened stands in place of "survived".
"""

import re
import resource
import selectors
import signal
import socket
import subprocess
import sys
import time

sockcat, limit, place, run = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
SECONDS = 4
DEADLINE = 20


def start():
    """Starts the server. Returns it, and the port that it listens on."""
    arguments = [sockcat, "listen", "127.0.0.1:0", "--echo", "--on", place]
    if run % 2 == 0:
        arguments += ["--max-connections", "100000"]
    server = subprocess.Popen(
        arguments,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
    )
    line = server.stderr.readline().decode()
    return server, int(line.rsplit(":", 1)[1])


def connect(selector, port):
    client = socket.socket()
    client.setblocking(False)
    client.connect_ex(("127.0.0.1", port))
    selector.register(client, selectors.EVENT_WRITE)


def flood(port, server):
    """Runs three times as many clients as fit, each of which sends again after each answer. Returns the number of answers."""
    selector = selectors.DefaultSelector()
    for _ in range(3 * limit):
        connect(selector, port)
    answers = 0
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and server.poll() is None:
        for key, ready in selector.select(0.1):
            client = key.fileobj
            try:
                if ready & selectors.EVENT_WRITE:
                    client.send(b"x")
                    selector.modify(client, selectors.EVENT_READ)
                elif client.recv(100):
                    answers += 1
                    client.send(b"x")
                else:
                    raise ConnectionResetError
            except OSError:
                selector.unregister(client)
                client.close()
                if server.poll() is None:
                    connect(selector, port)
        # Leave the server some processor time.
        time.sleep(0.05)
    for key in list(selector.get_map().values()):
        key.fileobj.close()
    return answers


def answers_again(port):
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as client:
                client.sendall(b"again")
                if client.recv(5, socket.MSG_WAITALL) == b"again":
                    return True
        except OSError:
            time.sleep(0.05)
    return False


def main():
    own = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (own, own))
    server, port = start()
    answers = flood(port, server)
    outcome = "survived" if server.poll() is None and answers_again(port) else "silent"
    server.send_signal(signal.SIGTERM)
    try:
        errors = server.communicate(timeout=60)[1].decode()
    except subprocess.TimeoutExpired:
        server.kill()
        errors = server.communicate()[1].decode()
        outcome = "never-ended"
    if server.returncode < 0:
        outcome = f"signal-{-server.returncode}"
    refused = re.search(r"(\d+) connections were refused", errors)
    print(limit, place, run, outcome, refused.group(1) if refused else 0, answers, flush=True)


main()
