"""Sink options for tests of the configuration alone: one of every kind that a real sink has."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator


class Acks(StrEnum):
    ALL = "all"
    LEADER = "leader"


class Login(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    user: str = Field(description="Who.", examples=["me"])
    password: SecretStr | None = Field(default=None, description="How that is shown.")


class QueueOptions(BaseModel):
    """A message queue."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    servers: str | list[str] = Field(description="Where it is.", examples=["127.0.0.1:9092"])
    topic: str = Field(min_length=1, description="Where in it.", examples=["k8s.{resource}"])
    acks: Acks = Field(default=Acks.ALL, description="Who must have stored a record.")
    login: Login | None = Field(default=None, description="Who we are.")
    headers: dict[str, str] = Field(default={}, description="Sent with each record.")
    linger: float = Field(default=0.005, ge=0, description="Seconds a batch may wait.")
    password_file: Path | None = Field(default=None, description="Where the password is.", examples=["/run/secret"])

    @field_validator("topic")
    @classmethod
    def _has_no_blanks(cls, topic: str) -> str:
        if " " in topic:
            raise ValueError("no blanks in a topic")
        return topic


class CopyOptions(BaseModel):
    """A file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Path = Field(description="Which file.", examples=["./deltas.ndjson"])
    rotate: bool = Field(default=False, description="Whether it is begun anew.")
    keep: int | None = Field(default=None, description="How many are kept.")

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.keep is not None and not self.rotate:
            raise ValueError("keep has no effect without rotate")
        return self


TYPES: Mapping[str, type[BaseModel]] = {"queue": QueueOptions, "copy": CopyOptions}

SMALLEST = """\
cluster:
  name: test
resources: [pods]
sinks:
  copy: {type: copy, path: ./deltas.ndjson}
"""
