"""Echoes messages over WebSocket, with the library `websockets`.

    echo.py serve        serves on a free port, and prints it
    echo.py PORT CA      asks the server one.test at 127.0.0.1:PORT for echoes, encrypted, and prints "done"
"""

import asyncio
import ssl
import sys

import websockets


async def echo(connection, *_):
    async for message in connection:
        await connection.send(message)


async def serve():
    async with websockets.serve(echo, "127.0.0.1", 0) as server:
        print(f"port {server.sockets[0].getsockname()[1]}\nready", flush=True)
        await asyncio.Future()


async def ask(port, ca):
    context = ssl.create_default_context(cafile=ca)
    url = f"wss://one.test:{port}/chat"
    async with websockets.connect(url, host="127.0.0.1", port=port, ssl=context, server_hostname="one.test") as connection:
        for message in ["hello", "x" * 500_000, b"bytes", ["in ", "three ", "frames"]]:
            await connection.send(message)
            answer = await connection.recv()
            wanted = "".join(message) if isinstance(message, list) else message
            assert answer == wanted, f"{answer!r} instead of {wanted!r}"
    print("done")


asyncio.run(serve() if sys.argv[1] == "serve" else ask(int(sys.argv[1]), sys.argv[2]))
