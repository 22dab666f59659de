"""A member of a chat who listens, with the library `websockets`: listener.py URL. It prints what it hears, and how it ends."""

import asyncio
import sys

import websockets


async def main(url):
    async with websockets.connect(url) as member:
        try:
            while True:
                print(await member.recv(), flush=True)
        except websockets.ConnectionClosed as end:
            print("closed with", end.rcvd.code if end.rcvd else None)


asyncio.run(main(sys.argv[1]))
