"""Runs the user's script in this process as `python script.py` would, and watches it.

python -m lossleuth.observe.child.run SCRIPT [ARGS...]
"""

from __future__ import annotations

import json
import os
import sys
import types
from pathlib import Path
from types import TracebackType

from lossleuth.observe.child.loaded_script import LoadedScript
from lossleuth.observe.child.overlay import protect
from lossleuth.observe.child.watch import Watch
from lossleuth.observe.request import VARIABLE, WatchRequest
from lossleuth.observe.stop import InterventionFailed, StopRun
from lossleuth.places import declare_user_file, is_library


def main() -> None:
    """Run the script named on the command line; exit as it exits."""
    asked = json.loads(os.environ[VARIABLE])
    asked["process"] = os.getpid()
    os.environ[VARIABLE] = json.dumps(asked)
    request = WatchRequest(**asked)
    folders = [str(Path.cwd()), str(Path(sys.argv[1]).absolute().parent)]
    is_protected = _protect(request, folders)
    watch: Watch | LoadedScript = Watch(request, main=True)
    if request.forked_after is not None:
        watch = LoadedScript(request, folders, is_protected=is_protected)
    sys.argv = sys.argv[1:]
    # As `python script.py` does: argv keeps what was typed, everything else is absolute.
    script = str(Path(sys.argv[0]).absolute())
    sys.path[0] = str(Path(script).resolve().parent)
    declare_user_file(script)
    # A script that is part of a package has its modules beside it, and they are the user's too.
    for beside in Path(script).resolve().parent.glob("*.py"):
        if is_library(str(beside)):
            declare_user_file(str(beside))
    watch.start()
    try:
        _run_as_main(script)
    except SystemExit as leaving:
        watch.finish({"how": "sys.exit", "code": _exit_code(leaving.code)})
        raise
    except StopRun:
        # Skip whatever the script does at exit.
        watch.leave()
    except InterventionFailed as failure:
        watch.finish({"how": "intervention failed", "error": str(failure)})
        watch.leave()
    except KeyboardInterrupt as interrupt:
        watch.finish({"how": "KeyboardInterrupt"})
        raise interrupt.with_traceback(_own_frames_dropped(interrupt.__traceback__)) from None
    except BaseException as error:
        watch.finish({"how": "exception", "error": f"{type(error).__name__}: {error}"})
        traceback = _own_frames_dropped(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(traceback), traceback)
        sys.stderr.flush()
        sys.exit(1)
    else:
        watch.finish({"how": "end of script"})


def _protect(request: WatchRequest, folders: list[str]) -> bool:
    """Keep what the script writes away from the user's files, if that was requested."""
    if request.scratch is None:
        return False
    reason = protect(folders, request.scratch, request.directory)
    if reason is not None:
        print(f"lossleuth: this run can overwrite your files: {reason}", file=sys.stderr)
    return reason is None


def _run_as_main(script: str) -> None:
    """What `python script.py` does; `runpy.run_path` would give argv and `__file__` one spelling,
    where Python keeps the first as typed and makes the second absolute."""
    module = types.ModuleType("__main__")
    module.__file__ = script
    module.__dict__["__cached__"] = None
    sys.modules["__main__"] = module
    code = compile(Path(script).read_bytes(), script, "exec")
    exec(code, module.__dict__)


def _exit_code(code: object) -> int:
    if code is None:
        return 0
    return code if isinstance(code, int) else 1


def _own_frames_dropped(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback from the script's first frame on, without our frames."""
    while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
        traceback = traceback.tb_next
    return traceback


if __name__ == "__main__":
    main()
