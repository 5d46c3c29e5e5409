"""Structured logs: JSON lines for machines, colours for a terminal. Never values, never secrets."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterator

import structlog


def configure(level: str) -> None:
    shared, renderer = _processors()
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    # Libraries log through the standard module; they come out in the same form.
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(
        level=max(logging.getLevelName(level), logging.WARNING), handlers=[handler], force=True
    )


def _processors() -> tuple[list[structlog.typing.Processor], structlog.typing.Processor]:
    """What every line gets, and what makes text of it."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.ExceptionRenderer(without_values),
    ]
    is_terminal = sys.stderr.isatty()
    return shared, structlog.dev.ConsoleRenderer() if is_terminal else structlog.processors.JSONRenderer()


def without_values(exc_info: structlog.typing.ExcInfo) -> str:
    """Where an error came from and what it is. Postgres and pydantic say on the lines after the first which
    values were at fault, and those are somebody's."""
    told = []
    for error in reversed([*_leading_to(exc_info[1])]):
        first_line = str(error).partition("\n")[0]
        told += [*traceback.format_tb(error.__traceback__), f"{type(error).__qualname__}: {first_line}\n"]
    return "".join(told).rstrip()


def _leading_to(error: BaseException | None) -> Iterator[BaseException]:
    """The error, the one that it was made of, and so on."""
    seen = set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def be_a_guest() -> None:
    """In another program's process: what has to be said goes to its errors, unless it has its own plans."""
    if not structlog.is_configured():
        shared, renderer = _processors()
        structlog.configure(
            processors=[*shared, renderer],
            wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        )


def logger(name: str) -> structlog.typing.FilteringBoundLogger:
    bound: structlog.typing.FilteringBoundLogger = structlog.get_logger(component=name)
    return bound
