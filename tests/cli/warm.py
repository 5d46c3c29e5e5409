"""A process that has everything loaded and runs each command in a fork of itself.

To start Python and load the server takes most of a command's time. A fork is a process of its own all the
same: its arguments, environment, directory, files and exit code are the command's.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any, NoReturn

import recollect.bootstrap  # noqa: F401 - loaded once, for all commands
from recollect.cli.app import main as command


def main() -> None:
    for line in sys.stdin.buffer:
        wanted = json.loads(line)
        if os.fork() == 0:
            _wait_for(wanted)
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _wait_for(wanted: dict[str, Any]) -> NoReturn:
    child = os.fork()
    if child == 0:
        _become(wanted)
    _, status = os.waitpid(child, 0)
    answer = {"id": wanted["id"], "code": os.waitstatus_to_exitcode(status)}
    os.write(1, f"{json.dumps(answer)}\n".encode())
    os._exit(0)


def _become(wanted: dict[str, Any]) -> NoReturn:
    code = 1
    try:
        os.environ.clear()
        os.environ.update(wanted["env"])
        os.chdir(wanted["cwd"])
        for number, (path, flags) in enumerate(
            ((wanted["stdin"], os.O_RDONLY), (wanted["stdout"], os.O_WRONLY), (wanted["stderr"], os.O_WRONLY))
        ):
            os.dup2(os.open(path, flags), number)
        sys.stdin = os.fdopen(0, "r", encoding="utf-8")
        sys.stdout, sys.stderr = (os.fdopen(fd, "w", encoding="utf-8") for fd in (1, 2))
        sys.argv = ["recollect", *wanted["arguments"]]
        command()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException:  # noqa: BLE001 - as Python itself would tell of it
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
