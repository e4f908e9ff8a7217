"""The modes of instructor, one question each."""

import sys
from collections.abc import Iterable

import instructor
from openai import OpenAI
from pydantic import BaseModel

base, _, model, *_ = sys.argv[1:]


class Town(BaseModel):
    """A town."""

    name: str
    people: int


Mode = instructor.Mode
for mode in (Mode.TOOLS, Mode.JSON, Mode.JSON_SCHEMA, Mode.MD_JSON, Mode.PARALLEL_TOOLS):
    client = instructor.from_openai(OpenAI(base_url=base, api_key="x"), mode=mode)
    wanted = Iterable[Town] if mode is Mode.PARALLEL_TOOLS else Town
    asked = [{"role": "user", "content": f"Which town in mode {mode.value}?"}]
    town = client.chat.completions.create(model=model, response_model=wanted, max_retries=1, messages=asked)
    print(mode, list(town) if mode is Mode.PARALLEL_TOOLS else town)
