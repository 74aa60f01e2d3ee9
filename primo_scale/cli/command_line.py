"""Base classes of all commands: exit codes, one-line errors, interruption, help and the log.

In the output file of a batch job, which others can often read, the log is public lines alone,
without times. The digest of the statistics, counts of people, durations and other facts about the
cohort go to the run's log in the work directory, which is private.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import copy_context
from functools import cached_property, partial
from glob import escape
from importlib import import_module
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, TextIO

import click
from click.core import ParameterSource

from primo_scale import errors
from primo_scale.cli.terminal import Terminal
from primo_scale.interruption import check, signals_noted
from primo_scale.run import run_log
from primo_scale.storage.files import files_private

if TYPE_CHECKING:
    from primo_scale.run.fields import Option

# Set by SLURM, PBS, LSF and Grid Engine in every job; the last one by the author of any other job.
BATCH_JOB_SIGNS = (
    "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "SGE_TASK_ID", "PRIMO_SCALE_BATCH_JOB",
)  # fmt: skip
_READER_HAS_LEFT = 128 + signal.SIGPIPE  # as a shell states it of other programs
_PUBLIC_EVENTS = ("stage begins", "stage ends", "published", "error")
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True}

_PRIVATE_FILTERS = ("maf", "max-maf", "mac", "max-mac", "geno", "hwe", "mind", "indep-pairwise")


class _OneLineErrors(click.Command):
    """Command whose usage errors are one line, like every other error, with exit code 2."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **{"context_settings": CONTEXT, **settings})

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command as a program."""
        words = args[0] if args else kwargs.get("args")
        words = sys.argv[1:] if words is None else words
        # Of Zarr's concurrent writes to a full disk, one error is raised and reported.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        try:
            _refuse_other_encodings(words)
            run_log.AS_JSON.set(os.environ.get("PRIMO_SCALE_LOG") == "json")
            return super().main(*args, **{**kwargs, "standalone_mode": False})
        except click.ClickException as error:
            message = error.format_message()
            is_help = message.startswith("Usage: ")  # a group without a command shows its --help
            line = _filter_of_the_cohort(error) or f"error: {message} See --help."
            click.echo(message if is_help else line, err=True)
            sys.exit(error.exit_code)
        except (errors.PrimoError, MemoryError, OSError) as error:
            explained = _explained(error)
            if _shows_traceback() or explained is None:
                raise
            click.echo(f"error: {explained}", err=True)
            sys.exit(explained.exit_code)
        except click.Abort:
            sys.exit(errors.InterruptedRun.exit_code)


class ContractCommand(_OneLineErrors):
    """Command with the exit codes of docs/architecture.md, one-line errors, and a log.

    It has the options of the request that `kinds` names, such as ``run.options.ReleaseRequest``,
    and makes it; its function gets it as `asked`. Of several kinds it has the options of all, and
    its function gets the values by their names as `given`. Fields without an option are given by
    the `obj` of the context, which a program sets that calls the command.
    """

    def __init__(self, *args: Any, kinds: Sequence[str] = (), **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._names = kinds

    @cached_property
    def kinds(self) -> list[Any]:
        """Classes of the requests."""
        parts = (name.rpartition(".") for name in self._names)
        return [getattr(import_module(f"primo_scale.{home}"), name) for home, _, name in parts]

    @cached_property
    def options(self) -> list[FieldOption]:
        """Options of the fields, in the order of their headings; the first of equal names."""
        if not self._names:
            return []
        from primo_scale.run.fields import HEADINGS, declared  # loads attrs

        fields = {
            name: FieldOption(name, *declaration)
            for kind in reversed(self.kinds)
            for name, declaration in declared(kind).items()
            if not declaration[0].expert
        }
        order = {heading: rank for rank, heading in enumerate(HEADINGS)}
        return sorted(fields.values(), key=lambda option: order.get(option.heading, -1))

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options of the fields and the others."""
        return [*self.options, *_VERBOSITY, *super().get_params(ctx)]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn an anticipated error into one line and its exit code."""
        debug = _shows_traceback()
        run_log.COMMAND_LINE.set(tuple(sys.orig_argv))
        run_log.LEVEL.set(ctx.meta.get(_LEVEL, logging.INFO))
        with _logged_to_terminal(), ExitStack() as ends:
            if not debug:
                ends.push(_end_without_traceback)
            # The watching thread has a context of its own.
            log_interruption = partial(
                copy_context().run, _report, errors.InterruptedRun("interrupted")
            )
            try:
                with signals_noted(log_interruption), files_private():
                    check()
                    self.run(ctx)
            except (errors.PrimoError, MemoryError, OSError, RuntimeError) as error:
                explained = _explained(error)
                if debug or explained is None:
                    raise
                unwritten = _of_output(error) or error
                if isinstance(unwritten, BrokenPipeError) and _reader_has_left():
                    _discard_output()
                    sys.exit(_READER_HAS_LEFT)
                _report(explained)
                sys.exit(explained.exit_code)

    def run(self, ctx: click.Context) -> Any:
        """Make the request, if there is one, and call the function of the command."""
        if self.kinds:
            from primo_scale.run.fields import request_of

            values = {option.name: ctx.params.pop(option.name) for option in self.options}
            given = {
                name: value
                for name, value in values.items()
                if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
            } | (ctx.obj or {})
            one = len(self.kinds) == 1
            ctx.params |= {"asked": request_of(self.kinds[0], given)} if one else {"given": given}
        return click.Command.invoke(self, ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each heading, in the order in which they first occur."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                sections.setdefault(getattr(parameter, "heading", "Other"), []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


class ContractGroup(_OneLineErrors, click.Group):
    """Group of commands, each a `ContractCommand`."""

    command_class = ContractCommand

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in the order of their definition, with whole summaries."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, each.get_short_help_str(200)) for name, each in self.commands.items()]
            )


_LEVEL = "primo_scale.level"


def _set_level(ctx: click.Context, option: click.Parameter, given: bool) -> None:
    if given:
        ctx.meta[_LEVEL] = logging.WARNING if option.name == "quiet" else logging.DEBUG


_VERBOSITY = [
    click.Option(
        [f"-{name[0]}", f"--{name}"], is_flag=True, expose_value=False, callback=_set_level,
        help=text,
    )
    for name, text in (("quiet", "Warnings and errors alone."), ("verbose", "Every step."))
]  # fmt: skip


def _shows_traceback() -> bool:
    return bool(os.environ.get("PRIMO_SCALE_DEBUG"))


def _filter_of_the_cohort(error: click.ClickException) -> str | None:
    """Return the error of a filter of plink2 that depends on the genotypes of the cohort."""
    name = error.option_name if isinstance(error, click.NoSuchOption) else ""
    if name.removeprefix("--") not in _PRIVATE_FILTERS:
        return None
    return (
        f"error: {name}: filters by the genotypes of the cohort, which the variants of a release "
        "would reveal without noise. Choose variants by public knowledge: --extract with a list of "
        "a public panel, such as plink2 --maf --write-snplist makes"
    )


def _refuse_other_encodings(words: Sequence[str]) -> None:
    """Refuse arguments and a working directory that are not UTF-8, as logs and tables are."""
    for word in (*words, os.getcwd()):
        try:
            word.encode()
        except UnicodeEncodeError:
            what, remedy = "is not UTF-8", "Rename the file or directory"
            with suppress(UnicodeError):  # bytes that Python did not decode may be UTF-8
                word = word.encode(errors="surrogateescape").decode()
                what, remedy = "is UTF-8, and the locale is not", "Set LC_ALL=C.UTF-8"
            raise errors.UsageError(
                f"an argument or the working directory {what}", value=ascii(word), remedy=remedy
            ) from None


def _explained(error: BaseException) -> errors.PrimoError | None:
    """Return the error to show, which names standard output if a write to it failed."""
    unwritten = _of_output(error)
    if unwritten is not None and unwritten.errno != errno.EPIPE:
        _discard_output()
        return errors.ResourceError(
            f"cannot be written: {unwritten.strerror}",
            where="standard output",
            remedy="Free space on its disk, or send the output elsewhere",
        )
    explained = errors.anticipated(error)
    if explained is not None:
        explained.name_options()
    return explained


def _of_output(error: BaseException) -> OSError | None:
    """Return the error of a write to standard output that `error` is, or was raised from."""
    for found in (error, error.__cause__):
        if isinstance(found, OSError) and found.__traceback__ is not None:
            *_, (frame, _) = walk_tb(found.__traceback__)
            if frame.f_code is click.echo.__code__:  # an error of writing has no file name
                return found
    return None


def _discard_output(stream: TextIO | None = None) -> None:
    """Discard the rest of the buffer of standard output, which Python writes when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), (stream or sys.stdout).fileno())


def _reader_has_left() -> bool:
    """Return whether the reader of standard output, such as ``head``, has ended."""
    state = select.poll()
    state.register(sys.stdout, 0)
    return any(event & select.POLLERR for _, event in state.poll(0))


def _report(error: errors.PrimoError) -> None:
    """Log an error; the output file of a batch job only gets a reference to the run's log."""
    record = run_log.error_record(error)
    log = run_log.LOGGED_IN.get()
    if (
        log is not None
        and _is_batch_output(sys.stderr)
        and not isinstance(error, errors.InterruptedRun)
    ):
        record.msg = f"error: exit code {error.exit_code}; {log} says why"
        vars(record)["fields"] = {"exit_code": error.exit_code}
    run_log.LOGGER.handle(record)


def _end_without_traceback(_kind: object, error: BaseException | None, _trace: object) -> None:
    """End a batch job by a bug whose traceback is in the run's log, and not in the job's output."""
    in_log = run_log.LOGGED_IN.get() is not None and isinstance(error, Exception)
    if in_log and _is_batch_output(sys.stderr):
        bug = errors.PrimoError("a bug")
        _report(bug)
        sys.exit(bug.exit_code)


@contextmanager
def _logged_to_terminal() -> Iterator[None]:
    """Show the log at the terminal, or its public lines in the output file of a batch job."""
    before = run_log.LOGGER.handlers[:], run_log.LOGGER.level, run_log.LOGGER.propagate
    digest = logging.Handler(logging.DEBUG)
    digest.emit = _print_digest  # type: ignore[method-assign]
    terminal = _terminal()
    run_log.LOGGER.handlers[:] = [terminal, digest]
    run_log.LOGGER.setLevel(logging.DEBUG)
    run_log.LOGGER.propagate = False
    try:
        yield
    finally:
        try:
            terminal.close()
            sys.stderr.flush()
        except OSError:  # a full disk, for which Python would end with exit code 120
            _discard_output(sys.stderr)
        run_log.LOGGER.handlers[:], run_log.LOGGER.level, run_log.LOGGER.propagate = before
        run_log.LOGGED_IN.set(None)
        run_log.COMMAND_LINE.set(())
        run_log.AS_JSON.set(False)
        run_log.LEVEL.set(logging.INFO)
        run_log.leave_stage()


def _is_batch_output(stream: TextIO) -> bool:
    """Return whether a stream is the output file of a batch job rather than a terminal."""
    return any(os.environ.get(sign) for sign in BATCH_JOB_SIGNS) and not stream.isatty()


def _print_digest(record: logging.LogRecord) -> None:
    """Print the digest of the statistics, which is private, outside batch jobs."""
    is_wanted = not (_is_batch_output(sys.stdout) or sys.stdout.isatty())
    if getattr(record, "event", None) == run_log.SUMMED and is_wanted:
        click.echo(record.getMessage())


def _terminal() -> logging.Handler:
    """Return the handler of standard error, which writes public lines alone in a batch job."""
    as_json, batch = run_log.AS_JSON.get(), _is_batch_output(sys.stderr)
    if not as_json and not batch:
        return Terminal(sys.stderr)
    terminal = logging.StreamHandler(sys.stderr)
    terminal.setFormatter(
        run_log.JsonLines(public=batch) if as_json else logging.Formatter("%(message)s")
    )
    if batch:
        terminal.addFilter(lambda record: getattr(record, "event", run_log.NOTE) in _PUBLIC_EVENTS)
    return terminal


class FieldOption(click.Option):
    """Option of a field of a request, which reads its text."""

    name: str

    def __init__(self, name: str, field: Option, default: object) -> None:
        from primo_scale.run.fields import FLAG, NEEDED, PATHS, PUBLIC_FILES

        flag, kind = errors.Field(name).option, field.kind
        self.heading = field.heading
        self._splits = kind.several and not kind.repeats
        self._splits_paths = kind in (PATHS, PUBLIC_FILES)
        shown = "" if default in (None, False, True, (), NEEDED) else _text_of(default)
        facts = [kind.interval] if kind.interval not in ("", "[1, inf)", "(-inf, inf)") else []
        facts += [f"default: {shown}"] if shown else []
        facts += ["required"] if default is NEEDED else []
        super().__init__(
            [f"{flag}/--no-{flag.removeprefix('--')}" if default is True else flag, name],
            is_flag=kind is FLAG,
            multiple=kind.repeats,
            metavar=None if kind is FLAG else field.metavar,
            help=errors.with_options(field.help) + (f"  [{'; '.join(facts)}]" if facts else ""),
            callback=self._split,
            show_default=False,
        )

    def _split(self, context: click.Context, _: click.Parameter, value: Any) -> Any:
        """Split a text at commas, unless it is the beginning of a path that exists."""
        if not self._splits or not isinstance(value, str):
            return value
        parts = tuple(part.strip() for part in value.split(","))
        if not all(parts):
            raise click.BadParameter(f"{value!r} has an empty part.", context, self)
        if len(parts) > 1 and self._splits_paths:
            text = Path(value)
            in_directory = "," in str(text.parent) and text.parent.is_dir()
            if in_directory or any(text.parent.glob(f"{escape(text.name)}*")):
                what = f"{value!r} is one path, and a comma separates paths. Write it into a file"
                remedy = "whose name ends in .list, and give that file."
                raise click.BadParameter(f"{what} {remedy}", context, self)
        return parts


def _text_of(default: object) -> str:
    if isinstance(default, tuple):
        return ",".join(map(_text_of, default))
    return f"{default:g}" if isinstance(default, float) else str(default)
