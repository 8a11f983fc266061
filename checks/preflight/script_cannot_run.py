from grpo_doctor import Fires, any_of, check, fires
from grpo_doctor.series import Column


@check("CFG047", severity="error", confidence="high", run_types=("rl", "preference", "supervised"))
def script_cannot_run(
    why: Column = any_of("settings.cannot_run"),
) -> Fires:
    """The script cannot run as it is written.

    ## What it sees
    A Python file that no version of Python accepts: an unclosed bracket, an argument that is given twice, a wrong
    indentation. A shell script in which arguments follow a line that does not end in a backslash, or a comment or an
    empty line inside a command.

    ## Why it matters
    Python stops before the first line. The shell starts the training without the arguments that follow, and tries to
    run them as a command of their own afterwards: the run trains with defaults, hours pass, then it fails.

    ## Known false alarms
    Excerpts: blocks of Markdown are left out. Syntax that is newer than the Python that runs grpo-doctor gives other
    messages and is left out too.

    ## Remedy
    Close the bracket, remove the second argument, end each line of a command but the last in a backslash.

    ## Sources
    CPython `Parser/pegen_errors.c` and `Python/symtable.c` ("keyword argument repeated"); POSIX 2.2.1 (escape
    character).
    """
    return fires(why == why, "The script cannot run as written: {why}.", hold=(1, 1), why=why)
