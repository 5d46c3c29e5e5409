"""The commands, put together."""

from __future__ import annotations

from importlib import metadata
from typing import Annotated

import typer

from recollect.cli import (
    bank,
    brain,
    brain_agents,
    brain_importing,
    chats,
    chats_importing,
    doctor,
    events,
    importing,
    jobs,
    keys,
    memories,
    model,
    models,
    nodes,
    profile,
    profile_updates,
    rule_prompts,
    rules,
    serving,
    users,
    webhooks,
    workspaces,
)
from recollect.cli.console import fail_with
from recollect.errors import RecollectError

app = typer.Typer(
    name="recollect",
    help="One memory server for AI applications.",
    no_args_is_help=True,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(metadata.version("recollect"))
        raise typer.Exit


app.command()(serving.serve)
app.command()(serving.worker)
app.command()(serving.migrate)
app.command()(doctor.doctor)
app.add_typer(users.app, name="user")
app.add_typer(keys.app, name="key")
app.add_typer(workspaces.app, name="workspace")
app.add_typer(bank.app, name="bank")
app.add_typer(memories.app, name="memories")
app.add_typer(brain.app, name="brain")
brain.app.command("import")(brain_importing.import_)
brain.app.add_typer(brain_agents.agents_app)
app.add_typer(nodes.app, name="nodes")
app.add_typer(profile.app, name="profile")
profile.app.add_typer(profile_updates.updates_app)
profile.app.add_typer(profile_updates.prompt_app, name="prompt")
app.add_typer(events.app, name="events")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(jobs.app, name="jobs")
app.add_typer(jobs.schedule_app, name="schedule")
app.add_typer(importing.app, name="import")
importing.app.command("chats")(chats_importing.import_)
app.add_typer(chats.app, name="chats")
app.add_typer(rules.app, name="rules")
rules.app.add_typer(rule_prompts.app, name="prompts")
app.add_typer(model.app, name="model")
app.add_typer(models.app, name="models")


def main() -> None:
    try:
        app()
    except RecollectError as error:
        fail_with(error)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
