"""Two members of a chat, with the library `websockets`: conversation.py URL. It prints "done" at the end."""

import asyncio
import sys

import websockets


async def expect(member, *lines):
    for line in lines:
        heard = await member.recv()
        assert heard == line, f"{heard!r} instead of {line!r}"


async def expect_end(url, message, code):
    async with websockets.connect(url) as member:
        await member.send(message)
        try:
            while True:
                await member.recv()
        except websockets.ConnectionClosed as end:
            assert end.rcvd is not None and end.rcvd.code == code, f"{end} instead of {code}"


async def main(url):
    async with websockets.connect(url + "Ada") as ada:
        await expect(ada, "* Ada is here")
        async with websockets.connect(url + "Bob") as bob:
            await expect(bob, "* Ada is here", "* Bob is here")
            await expect(ada, "* Bob is here")
            await ada.send("hello")
            await expect(bob, "Ada: hello")
            await expect(ada, "Ada: hello")
            # Three frames, one message.
            await bob.send(["Zü", "rich", " is far"])
            await expect(ada, "Bob: Zürich is far")
            await (await bob.ping(b"are you there?"))
        await expect(ada, "* Bob has left")
        await ada.send("x" * 16_384)
        await expect(ada, "Ada: " + "x" * 16_384)
    await expect_end(url + "Eve", "x" * 16_385, 1009)
    await expect_end(url + "Eve", ["x" * 9_000, "x" * 9_000], 1009)
    await expect_end(url + "Eve", b"bytes", 1003)
    print("done")


asyncio.run(main(sys.argv[1]))
