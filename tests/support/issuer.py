"""Another token issuer: its keys, and a real server that publishes them."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm


class Signer:
    """One private key, and its public half as a JWK."""

    def __init__(self, algorithm: str, kid: str | None, *, bits: int = 2048) -> None:
        self.algorithm, self.kid = algorithm, kid
        if algorithm == "RS256":
            self.private: Any = rsa.generate_private_key(public_exponent=65537, key_size=bits)
        else:
            self.private = ec.generate_private_key(ec.SECP256R1())

    def jwk(self, **more: object) -> dict[str, object]:
        form = RSAAlgorithm if self.algorithm == "RS256" else ECAlgorithm
        public = json.loads(form.to_jwk(self.private.public_key()))
        public.pop("key_ops", None)
        return public | ({"kid": self.kid} if self.kid else {}) | more

    def token(self, header: dict[str, object] | None = None, **claims: object) -> str:
        named: dict[str, object] = {"kid": self.kid} if self.kid else {}
        given = {"sub": "robot", "exp": datetime.now(UTC) + timedelta(hours=1)} | claims
        kept = {name: value for name, value in given.items() if value is not None}
        return jwt.encode(kept, self.private, self.algorithm, headers=named | (header or {}))


class Issuer:
    """What is published at `url`: set `body` or `status`; `asked` counts the requests."""

    def __init__(self) -> None:
        self.asked = 0
        self.status = 200
        self.body: bytes = b'{"keys": []}'
        self.before: Callable[[], object] = lambda: None
        self.headers: dict[str, str] = {}
        self.url = ""

    def publish(self, *keys: dict[str, object]) -> None:
        self.body = json.dumps({"keys": keys}).encode()


@contextmanager
def publishing() -> Iterator[Issuer]:
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked += 1
            issuer.before()
            try:
                self.send_response(issuer.status)
                for name, value in issuer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(issuer.body)
            except ConnectionError:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer.url = f"http://127.0.0.1:{server.server_port}/keys"
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
