"""HTTP as it is read from a connection: in C, with a limit on what is gathered before a body."""

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# The request line and the headers; of a header that has not ended, as much again.
LARGEST_HEAD = 65_536
TOO_LARGE = b"the headers are larger than %d bytes" % LARGEST_HEAD
REFUSAL = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: text/plain; charset=utf-8\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%b"
) % (len(TOO_LARGE), TOO_LARGE)
INVALID = "Invalid HTTP request received."


class HeadTooLarge(Exception):
    """Told to the parser, which ends the connection."""


class Ambiguous(Exception):
    """Told to the parser, which ends the connection: others may read this request differently."""


class HttpConnection(HttpToolsProtocol):
    """One connection. The parser alone would gather headers without end, and trailers as well.

    What comes behind a body is no header: whoever has looked at those of the request must be able
    to rely on them. A client that would rather speak HTTP/2 is answered in HTTP/1.1: the parser
    alone would take the body of its request for HTTP/2.
    """

    _head_size = 0
    _unfinished_size = 0
    _is_in_head = False
    _is_upgrade = False
    _is_too_large = False
    _has_moved = False

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._has_moved = False
        try:
            self._read(data)
        except httptools.HttpParserError:
            self.logger.warning(INVALID)
            self.send_400_response(INVALID)
            return
        self._unfinished_size = 0 if self._has_moved else self._unfinished_size + len(data)
        if self._unfinished_size > LARGEST_HEAD and not self.transport.is_closing():
            self._is_too_large = True
            self.send_400_response(INVALID)

    def _read(self, data: bytes) -> None:
        # Many requests may come at once: what is left of them is neither copied nor read deeper.
        left = memoryview(data)
        while True:
            try:
                self.parser.feed_data(left)
            except httptools.HttpParserUpgrade as upgrade:
                behind_head: int = upgrade.args[0]
                left = left[behind_head:]
                self._read_head_again()
            else:
                return

    def _read_head_again(self) -> None:
        """Without the wish for another protocol, behind which the parser would read no body."""
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [b"%b: %b" % each for each in self.headers if each[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        # As for the first parser of a connection: what comes behind the last request is no error.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.parser.feed_data(b"\r\n".join([*lines, b"", b""]))

    def on_message_begin(self) -> None:
        self._head_size, self._is_in_head, self._is_upgrade = 0, True, False
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._grow(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._grow(len(name) + len(value))
        if self._is_in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._check_head()
        self._is_upgrade = self.parser.should_upgrade()
        if not self._is_upgrade:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._has_moved = True
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
        """What the parser lets through, though two servers might read it differently."""
        if self.parser.get_method() == b"CONNECT":
            raise Ambiguous
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() == "1.1"):
            raise Ambiguous

    def _grow(self, size: int) -> None:
        self._has_moved = True
        self._head_size += size
        if self._head_size > LARGEST_HEAD:
            self._is_too_large = True
            raise HeadTooLarge
