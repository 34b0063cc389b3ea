"""HTTP/1.1 on a connection: parsed in C by httptools, with a limit on the size of headers."""

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# For the request line and the headers; an unfinished header may have as much again.
LARGEST_HEAD = 65_536
TOO_LARGE = b"the headers are larger than %d bytes" % LARGEST_HEAD
REFUSAL = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: text/plain; charset=utf-8\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%b"
) % (len(TOO_LARGE), TOO_LARGE)
INVALID = "Invalid HTTP request received."


class HeadTooLarge(Exception):
    """Raised inside the parser, which then ends the connection."""


class Ambiguous(Exception):
    """Raised inside the parser: a proxy in front of us might read this request differently."""


class HttpConnection(HttpToolsProtocol):
    """One connection. Uvicorn's own class collects headers, and trailers, without a limit.

    Trailers are dropped: uvicorn's class would add them to the headers, after these were checked.
    A client that asks for an upgrade to HTTP/2, as Java's does, is answered in HTTP/1.1: uvicorn's
    class would not read the body of its request. Decision 31 has the alternatives.
    """

    _head_size = 0
    _unfinished_size = 0
    _is_in_head = False
    _is_upgrade = False
    _is_too_large = False
    _has_progressed = False

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._has_progressed = False
        try:
            self._read(data)
        except httptools.HttpParserError:
            self.logger.warning(INVALID)
            self.send_400_response(INVALID)
            return
        self._unfinished_size = 0 if self._has_progressed else self._unfinished_size + len(data)
        if self._unfinished_size > LARGEST_HEAD and not self.transport.is_closing():
            self._is_too_large = True
            self.send_400_response(INVALID)

    def _read(self, data: bytes) -> None:
        # A loop and a view: 1,500 pipelined upgrades need neither recursion nor copies.
        left = memoryview(data)
        while True:
            try:
                self.parser.feed_data(left)
            except httptools.HttpParserUpgrade as upgrade:
                head_size: int = upgrade.args[0]
                left = left[head_size:]
                self._read_head_again()
            else:
                return

    def _read_head_again(self) -> None:
        """Parse the head again without its Upgrade header: with it, the parser reads no body."""
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [b"%b: %b" % each for each in self.headers if each[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        # As uvicorn sets it for the first parser: data after the last request is no error.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.parser.feed_data(b"\r\n".join([*lines, b"", b""]))

    def on_message_begin(self) -> None:
        self._head_size, self._is_in_head, self._is_upgrade = 0, True, False
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value))
        if self._is_in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._check_head()
        self._is_upgrade = self.parser.should_upgrade()
        if not self._is_upgrade:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._has_progressed = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._is_upgrade:
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        if not self._is_too_large:
            super().send_400_response(msg)
            return
        self.transport.write(REFUSAL)
        self.transport.close()

    def _check_head(self) -> None:
        """Refuse what the parser accepts but two servers might read differently."""
        if self.parser.get_method() == b"CONNECT":
            raise Ambiguous
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() == "1.1"):
            raise Ambiguous

    def _count_head(self, size: int) -> None:
        self._has_progressed = True
        self._head_size += size
        if self._head_size > LARGEST_HEAD:
            self._is_too_large = True
            raise HeadTooLarge
