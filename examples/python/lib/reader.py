"""A minimal reader that stands where the OpenAI and Anthropic SDKs for Python would: it is NOT those SDKs, which come from
PyPI, but reads and fails as they do, over the same httpx:

- events are cut out of response.iter_bytes() at blank lines, `[DONE]` ends a stream of OpenAI, and a body that just ends is
  no error;
- an error in the stream is raised; a status from 400 on is raised after the body was read;
- what fails before the headers is raised as APITimeoutError or APIConnectionError from httpx's error, what fails in the
  body as httpx's own;
- unless x-should-retry decides, 408, 409, 429, 5xx and errors before the headers are tried again max_retries times, after retry-after-ms or retry-after, with
  x-stainless-retry-count in the headers;
- the response is closed when the loop over the stream is left.
"""

import asyncio
import contextlib
import json
import random
import time

import aiohttp
import httpx

PATHS = {'chat': '/chat/completions', 'responses': '/responses', 'messages': '/v1/messages'}


class APIError(Exception):
    pass


class APIConnectionError(APIError):
    pass


class APITimeoutError(APIConnectionError):
    pass


class APIStatusError(APIError):
    pass


class Decoder:
    """Cuts events out of bytes, as the SDKs' SSEDecoder does."""

    def __init__(self, api):
        self.api, self.data, self.name, self.buffer, self.done = api, [], None, b'', False

    def feed(self, chunk):
        """Yield the events that the chunk completes, each before the next is read."""
        for line in chunk.splitlines(keepends=True):
            self.buffer += line
            if self.buffer.endswith((b'\r\r', b'\n\n', b'\r\n\r\n')):
                whole, self.buffer = self.buffer, b''
                yield from self.cut(whole)

    def end(self):
        whole, self.buffer = self.buffer, b''
        return self.cut(whole) if whole else []

    def cut(self, whole):
        for raw in whole.splitlines():
            line = raw.decode()
            if line:
                field, _, value = line.partition(':')
                value = value[1:] if value.startswith(' ') else value
                if field == 'data':
                    self.data.append(value)
                elif field == 'event':
                    self.name = value
            elif self.data or self.name:
                data, name, self.data, self.name = '\n'.join(self.data), self.name, [], None
                yield from self.event(name, data)

    def event(self, name, data):
        if self.done:
            return []
        if self.api != 'messages' and data.startswith('[DONE]'):
            self.done = True
            return []
        if name == 'ping':
            return []
        event = json.loads(data)
        if self.api == 'messages' and name == 'error':
            raise APIStatusError('an error in the stream')
        if isinstance(event, dict) and event.get('error'):
            raise APIError('an error in the stream')
        return [event]


def wait_before(attempt, headers):
    """Return the seconds before the next attempt."""
    for name, unit in (('retry-after-ms', 1000), ('retry-after', 1)):
        try:
            seconds = float(headers[name]) / unit
        except (KeyError, ValueError, TypeError):
            continue
        if 0 < seconds <= 60:
            return seconds
    return min(0.5 * 2**attempt, 8) * (1 - 0.25 * random.random())


def retried(status, headers):
    said = headers.get('x-should-retry')
    return said == 'true' or said != 'false' and (status in (408, 409, 429) or status >= 500)


def headers_of(attempt):
    return {'authorization': 'Bearer none', 'x-api-key': 'none', 'x-stainless-lang': 'python', 'x-stainless-retry-count': str(attempt)}


def connection_error(error):
    timed_out = isinstance(error, (httpx.TimeoutException, asyncio.TimeoutError))
    return (APITimeoutError if timed_out else APIConnectionError)('Connection error.')


def read(client, base_url, api, body, max_retries=0):
    """The events of a streamed response, over a httpx.Client."""
    for attempt in range(max_retries + 1):
        request = client.build_request('POST', base_url + PATHS[api], json=body, headers=headers_of(attempt))
        try:
            response = client.send(request, stream=True)
        except Exception as error:
            if attempt < max_retries:
                time.sleep(wait_before(attempt, {}))
                continue
            raise connection_error(error) from error
        if response.status_code < 400:
            break
        if attempt < max_retries and retried(response.status_code, response.headers):
            response.close()
            time.sleep(wait_before(attempt, response.headers))
            continue
        response.read()
        raise APIStatusError(f'status {response.status_code}')
    decoder = Decoder(api)
    try:
        for chunk in response.iter_bytes():
            yield from decoder.feed(chunk)
            if decoder.done:
                return
        yield from decoder.end()
    finally:
        response.close()


async def read_async(client, base_url, api, body, max_retries=0):
    """The same over a httpx.AsyncClient."""
    for attempt in range(max_retries + 1):
        request = client.build_request('POST', base_url + PATHS[api], json=body, headers=headers_of(attempt))
        try:
            response = await client.send(request, stream=True)
        except Exception as error:
            if attempt < max_retries:
                await asyncio.sleep(wait_before(attempt, {}))
                continue
            raise connection_error(error) from error
        if response.status_code < 400:
            break
        if attempt < max_retries and retried(response.status_code, response.headers):
            await response.aclose()
            await asyncio.sleep(wait_before(attempt, response.headers))
            continue
        await response.aread()
        raise APIStatusError(f'status {response.status_code}')
    decoder = Decoder(api)
    try:
        async for chunk in response.aiter_bytes():
            for event in decoder.feed(chunk):
                yield event
            if decoder.done:
                return
        for event in decoder.end():
            yield event
    finally:
        await response.aclose()


async def read_aiohttp(session, base_url, api, body, max_retries=0):
    """The same over an aiohttp.ClientSession."""
    async with contextlib.AsyncExitStack() as stack:
        for attempt in range(max_retries + 1):
            try:
                response = await stack.enter_async_context(session.post(base_url + PATHS[api], json=body, headers=headers_of(attempt)))
            except Exception as error:
                if attempt < max_retries:
                    await asyncio.sleep(wait_before(attempt, {}))
                    continue
                raise connection_error(error) from error
            if response.status < 400:
                break
            if attempt < max_retries and retried(response.status, response.headers):
                response.close()
                await asyncio.sleep(wait_before(attempt, response.headers))
                continue
            await response.read()
            raise APIStatusError(f'status {response.status}')
        decoder = Decoder(api)
        async for chunk in response.content.iter_any():
            for event in decoder.feed(chunk):
                yield event
            if decoder.done:
                return
        for event in decoder.end():
            yield event
