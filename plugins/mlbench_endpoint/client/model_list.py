"""The servers' models, queried before any prompt is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import aiohttp

from mlbench_endpoint.api import Api
from mlbench_endpoint.client.access import request_url
from mlbench_endpoint.client.advice import NAME_THE_MODEL, advise_on
from mlbench_endpoint.client.answer import Answer, AnswerFormat
from mlbench_endpoint.client.failure import RequestFailed, one_line
from mlbench_endpoint.client.json_object import json_object
from mlbench_endpoint.client.response import EVENT_STREAM, expect_success, messages, read_body

LISTING_S = 60.0
"""Longest time to list models, or to generate one token of a model that is not listed."""


async def find_model(http: aiohttp.ClientSession, targets: Sequence[str], model: str, api: Api) -> str:
    """Return the name of the model, which every target must have.

    Raises:
        RequestFailed: a target does not answer, has no such model, or has not exactly one when none is named.
    """
    for target in targets:
        try:
            async with asyncio.timeout(LISTING_S):
                names = await _list_models(http, target, model)
            if not model and len(names) != 1:
                listed = f"{len(names)} models ({one_line(', '.join(names))})" if names else "no models"
                raise RequestFailed(f"{target} lists {listed}: set backend.model", advice=NAME_THE_MODEL)
            model = model or names[0]
            if model not in names:
                async with asyncio.timeout(LISTING_S):
                    await _expect_model(http, target, model, names, api)
        except (aiohttp.ClientError, TimeoutError) as error:
            reason = f"{target} does not answer: {error or type(error).__name__}"
            raise RequestFailed(reason, advice=advise_on(error)) from error
    return model


async def _list_models(http: aiohttp.ClientSession, target: str, model: str) -> list[str]:
    """Return the names of a target's models; empty if it lists none.

    Raises:
        RequestFailed: it refuses, and the user names no model.
    """
    async with http.get(request_url(target, "models"), allow_redirects=False) as response:
        if response.status != HTTPStatus.OK and model:
            return []
        try:
            await expect_success(response)
            entries = json_object(await read_body(response)).get("data")
        except RequestFailed as error:
            advice = error.advice if error.status != HTTPStatus.NOT_FOUND else NAME_THE_MODEL
            advice = advice if advice == error.advice or not error.advice else f"{advice}; {error.advice}"
            raise RequestFailed(f"{request_url(target, 'models')}: {error}", advice=advice) from None
    listed: list[Any] = entries if isinstance(entries, list) else []
    return [str(entry["id"]) for entry in listed if isinstance(entry, dict) and "id" in entry]


async def _expect_model(http: aiohttp.ClientSession, target: str, model: str, names: Sequence[str], api: Api) -> None:
    """Request a token of a model that a target does not list; the answer may have any form.

    ``transformers serve`` lists downloaded models, not the folder that it serves.

    Raises:
        RequestFailed: the target has no such model.
    """
    body = {"model": model, **api.prompt_fields("a"), "max_tokens": 1}
    async with http.post(request_url(target, api.path), json=body, allow_redirects=False) as response:
        try:
            await expect_success(response)
            is_stream = response.content_type == EVENT_STREAM
            form = AnswerFormat(is_text=True, is_stream=is_stream, api=api, vocabulary=0, choices=1, has_usage=False)
            answer = Answer(form, limit=1)
            async for message in messages(response, is_stream=is_stream, oddities=answer.oddities):
                if message.fields:
                    answer.add(message.fields)
        except RequestFailed as error:
            listed = f"lists no model {model!r}, but {one_line(', '.join(names))}" if names else "lists no models"
            raise RequestFailed(f"{target} {listed}; asked for {model!r}: {error}", advice=error.advice) from None
