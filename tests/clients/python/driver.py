"""The loop of a driver: a JSON request a line, a JSON answer a line. See tests/clients/README.md."""

import asyncio
import base64
import inspect
import json
import sys


class Unsupported(Exception):
    """The client cannot do the operation at all."""


class Refused(Exception):
    """An error that carries Kafka's code."""

    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code


def decode(text):
    """Bytes from JSON's base64; None stays None."""
    return None if text is None else base64.b64decode(text)


def encode(data):
    """JSON's base64 from bytes; None stays None."""
    return None if data is None else base64.b64encode(bytes(data)).decode()


def record(offset, timestamp, key, value, headers):
    """A record as JSON has it."""
    return {
        "offset": offset,
        "timestamp": timestamp,
        "key": encode(key),
        "value": encode(value),
        "headers": [{"name": n, "value": encode(v)} for n, v in headers or []],
    }


def headers_of(r):
    """The headers of a record that is to be sent, as the clients take them."""
    return [(h["name"], decode(h["value"])) for h in r.get("headers") or []]


def _code(error):
    """Kafka's code of an error, wherever the client keeps it; None if it has none."""
    seen = []
    while error is not None and error not in seen:
        seen.append(error)
        if isinstance(error, Refused):
            return error.code
        code = getattr(error, "errno", None)
        if isinstance(code, int) and not isinstance(error, OSError):
            return code
        inner = [a for a in getattr(error, "args", ()) if isinstance(a, Exception)]
        error = error.__cause__ or (inner[0] if inner else None)
    return None


async def _serve(handlers, limit):
    loop = asyncio.get_running_loop()
    while True:
        line = await loop.run_in_executor(None, sys.stdin.readline)
        if not line:
            return
        request = json.loads(line)
        handler = handlers.get(request["op"])
        try:
            if handler is None:
                raise Unsupported
            answer = handler(request)
            if inspect.isawaitable(answer):
                answer = await asyncio.wait_for(answer, limit)
            answer = answer or {}
        except Unsupported:
            answer = {"unsupported": True}
        except Exception as e:  # Whatever a client throws is a result.
            code = _code(e)
            text = f"{type(e).__name__}: {e}".split("\n")[0]
            answer = {"code": code} if code else {"error": text}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def serve(handlers, limit=25):
    """Answers requests until the input ends. A handler may be a coroutine function."""
    asyncio.run(_serve(handlers, limit))


async def serve_async(handlers, limit=25):
    """As serve, inside a loop that runs already."""
    await _serve(handlers, limit)
