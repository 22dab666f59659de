"""A mail server for the tests. Prints its port, and then a line of JSON for each message.

It refuses some recipients: nobody@ for good, busy@ for now. It refuses content with the word "unwelcome".
"""
import argparse
import asyncio
import base64
import json
import ssl

from aiosmtpd.smtp import SMTP, AuthResult

options = argparse.ArgumentParser()
options.add_argument("--certificate")
options.add_argument("--key")
options.add_argument("--implicit", action="store_true")
options.add_argument("--login", action="store_true", help="offers AUTH LOGIN, and not PLAIN")
options.add_argument("--password")
options.add_argument("--size", type=int, default=1_000_000)
options.add_argument("--pipelining", action="store_true")
options.add_argument("--ascii", action="store_true", help="does not offer 8BITMIME")
options = options.parse_args()


class Handler:
    messages = 0

    async def handle_EHLO(self, server, session, envelope, hostname, responses):
        session.host_name = hostname
        if options.pipelining:
            responses.insert(1, "250-PIPELINING")
        return responses

    async def handle_RCPT(self, server, session, envelope, address, rcpt_options):
        if address.startswith("nobody@"):
            return "550 5.1.1 no such mailbox"
        if address.startswith("busy@"):
            return "450 4.2.1 the mailbox is busy"
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 ok"

    async def handle_DATA(self, server, session, envelope):
        content = envelope.original_content
        if isinstance(content, str):
            content = content.encode()
        if b"unwelcome" in content:
            return "554 5.6.0 the content is unwelcome"
        self.messages += 1
        message = {
            "sender": envelope.mail_from,
            "options": envelope.mail_options,
            "recipients": envelope.rcpt_tos,
            "content": base64.b64encode(content).decode(),
            "client": session.host_name,
            "user": (session.auth_data or b"").decode(),
            "encrypted": options.implicit or session.ssl is not None,
        }
        print(json.dumps(message, sort_keys=True), flush=True)
        return f"250 2.0.0 queued as {self.messages}"


def authenticate(server, session, envelope, mechanism, data):
    if data.password.decode() == options.password:
        return AuthResult(success=True, auth_data=mechanism.encode() + b" " + data.login)
    return AuthResult(success=False, handled=False)


async def main():
    context = None
    if options.certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(options.certificate, options.key)
    handler = Handler()

    def make():
        return SMTP(
            handler,
            data_size_limit=options.size,
            hostname="mail.example.org",
            decode_data=options.ascii,
            tls_context=None if options.implicit else context,
            require_starttls=context is not None and not options.implicit,
            authenticator=authenticate,
            auth_required=options.password is not None,
            # With TLS from the first byte on, aiosmtpd does not know that there is TLS.
            auth_require_tls=not options.implicit,
            auth_exclude_mechanism=["PLAIN"] if options.login else ["LOGIN"],
        )

    server = await asyncio.get_running_loop().create_server(
        make, "127.0.0.1", 0, ssl=context if options.implicit else None
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
