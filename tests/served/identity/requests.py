"""Raw requests to admin pages."""

import asyncio

Fields = dict[str, str]


async def request(
    address: tuple[str, int], path: str, fields: Fields, method: str = "GET", body: bytes = b""
) -> tuple[int, bytes]:
    """The answer to a raw HTTP/1.1 request with these header fields and no others: (status, body)."""
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(f"{method} {path} HTTP/1.1\r\n{head}{length}Connection: close\r\n\r\n".encode() + body)
        answer = await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()
    top, _, rest = answer.partition(b"\r\n\r\n")
    return int(top.split()[1]), rest
