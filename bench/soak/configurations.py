"""Hostile configurations and templates: includes, bombs, endless plans, `use` of things that are
not classes of looktwice, and paths outside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.soak.forked import looktwice_each
from bench.soak.hostile_server import good, hostile_server
from bench.soak.scene import SECRET, Finding, faults, find_keys, finding, write_study

LAUGHS = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)
TENS = ", ".join(map(str, range(1, 11)))
SWEEP = "sweep:\n" + "".join(f"  model.extra.k{n}: [{TENS}]\n" for n in range(8))

WHOLE: dict[str, bytes] = {
    "empty": b"",
    "5": b"5",
    "null": b"null",
    "a list": b"[1, 2]",
    "torn": b"task: {use: ",
    "tabs": b"\ttask: 1",
    "zeros": b"\0\0\0",
    "no UTF-8": b"\xff\xfe\xfd",
    "UTF-16": "task: 5".encode("utf-16"),
    "two documents": b"a: 1\n---\nb: 2",
    "5,000 brackets": b"[" * 5000,
    "900 deep": b"{a: " * 900 + b"1" + b"}" * 900,
    "laughs": LAUGHS.encode(),
    "itself": b"task: &a [*a]",
    "merged with itself": b"task: &a {<<: *a}",
    "python": b"!!python/object/apply:os.system ['true']",
    "half a surrogate": b'task: "\\ud83d"',
    "a key that is a list": b"[1, 2]: 3",
    "a date": b"task: 2020-01-01",
    "sixty": b"task: 1:1:1:1:1:1",
    "a number of 5,000 digits": b"task: " + b"9" * 5000,
}
"""Whole files; none of them is a study."""

ADDED: dict[str, str] = {
    "include 5": "include: 5",
    "include a list of 5": "include: [5]",
    "include itself": "include: study.yaml",
    "include a folder": "include: questions",
    "include outside": "include: /etc/passwd",
    "include up": "include: ../../x",
    "a sweep of 10^8": SWEEP,
    "draws -1": "draws: -1",
    "draws 1e999": "draws: 1.0e+999",
    "seed of 5,000 digits": f"seed: {'9' * 5000}",
    "a contestant that leads up": "contestants: {../../x: {stages: 5}}",
    "a reader 5": "read: 5",
    "a file outside": "contestants: {x: {stages: {ask: {system: {file: /etc/passwd}}}}}",
    "an unknown key": "nonsense: {a: 1}",
    "environment": 'read: "${oc.env:OPENAI_API_KEY}"',
    "round": 'read: "${read}"',
    "a resolver": 'read: "${oc.decode:x}"',
    "nested interpolation": 'read: "${${read}}"',
    "half": 'read: "${"',
}
ADDED |= {
    f"use {use!r}": f"read: {{use: {use!r}, command: 'true', args: 'true'}}"
    for use in (
        *(
            "os.system",
            "builtins.eval",
            "subprocess.Popen",
            "pathlib.Path",
            "eval.cli.main",
            "eval.readers.__import__",
        ),
        *(
            "looktwice.pipelines.config.classes.load_plugin",
            "pipelines.config.build",
            "pipelines.models.cache.Store",
            ".",
        ),
        *(
            "eval.readers.Robust.__init__",
            "eval.readers.reader.build_reader",
            "eval.readers.os",
            "",
            " ",
            "a" * 9999,
        ),
        *(
            "prompting.markers.Circles",
            "pipelines.runtime.Blobs",
            "eval.records.RunFolder",
            "../x",
            "/etc/passwd",
        ),
    )
} | {"use 5": "read: {use: 5}", "use a list": "read: {use: [a]}"}
"""What is added to a good study, and must be refused."""

SETTINGS: tuple[str, ...] = (
    *(
        "model.url=file:///etc/passwd",
        "model.url=gopher://127.0.0.1/",
        "model.url=http://[",
        "model.url=5",
    ),
    *(
        "model.timeout=nan",
        "model.timeout=-1",
        "model.in_flight=0",
        "model.temperature=x",
        f"model.extra.x={SECRET}",
    ),
    *(
        "task.path=/etc",
        "task.path=../../..",
        "task.file=/etc/passwd",
        "task.file=5",
        "task.subset.n=-1",
        "task.subset=5",
    ),
    *(
        "stages.choose={file: /etc/passwd}",
        "stages.ask.system={file: /no/such}",
        "stages=5",
        "stages.ask=5",
        "=",
        "a=b=c",
    ),
    *(
        "stages.ask.options.max_tokens=1e999",
        "..=1",
        "model.__class__=5",
        "stages.x.use=os.system",
        "task.use=os.system",
    ),
)

TEMPLATES: tuple[str, ...] = (
    *(
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ self._TemplateReference__context }}",
        "{{ cycler.x }}",
    ),
    *(
        "{% for i in range(10**9) %}x{% endfor %}",
        "{{ 'x' * 10**9 }}",
        "{{ 9 ** 9 ** 9 }}",
        "{% include 'a' %}",
    ),
    *(
        "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ '%999999999d' % 1 }}",
        "{{ 'x'|center(10**9) }}",
    ),
    *(
        "{{ '{:>999999999}'.format(1) }}",
        "{{ [1] * 10**9 }}",
        "{{ question|replace('', 'x' * 9999) }}",
        "{{ (((( }}",
    ),
    *(
        "(" * 9999,
        "{{" + "(" * 5000 + "1" + ")" * 5000 + "}}",
        "{% set a = 'x' * 999 %}" * 999,
        "{{ lipsum(n=9999) }}",
    ),
    "{% for i in range(999) %}" * 3 + "x" + "{% endfor %}" * 3,
    *(
        "{{ range(10**9)|list }}",
        "{{ question|wordwrap(1) }}",
        "{{ question.encode('idna') }}",
        "{{ dict(a=1).pop }}",
    ),
)


def configurations(folder: Path, only: str = "") -> Iterator[Finding]:
    """Check every study, and run those with settings."""
    with hostile_server(lambda body, before: good()) as server:
        base = write_study(folder, server.url, ["Is it?"]).read_text()
        commands: dict[str, list[object]] = {}
        for name, data in (
            WHOLE | {name: (base + text).encode() for name, text in ADDED.items()}
        ).items():
            path = folder / f"study{len(commands)}.yaml"
            path.write_bytes(data.replace(b"include: study.yaml", f"include: {path.name}".encode()))
            commands[name] = ["check", path]
        plain = folder / "study.yaml"
        commands |= {text: ["run", plain, text, "--out", folder / "runs"] for text in SETTINGS}
        yield from refused(
            folder, {name: words for name, words in commands.items() if only in name}, server.url
        )
        if not only:
            yield from templates(folder, base, server.url)


def refused(folder: Path, commands: dict[str, list[object]], url: str) -> Iterator[Finding]:
    """Yield a row for each command that was not refused with a clear sentence, and one for all that
    were."""
    ends = dict(zip(commands, looktwice_each(list(commands.values()), url), strict=True))
    for name, ended in ends.items():
        wrong = faults(ended, {1, 2}) + (["a page of words"] if len(ended.said) > 20_000 else [])
        if wrong:
            yield finding("configurations", name[:60], "", wrong, ended)
    longest = max(ended.seconds for ended in ends.values())
    figure = (
        f"{sum(ended.code in (1, 2) for ended in ends.values())} refused, the slowest in"
        f" {longest:.1f} s"
    )
    yield finding(
        "configurations", f"{len(ends)} hostile configurations", figure, find_keys(folder)
    )


def templates(folder: Path, base: str, url: str) -> Iterator[Finding]:
    """Run a study with each template as the wording of its question."""
    commands = []
    for number, text in enumerate(TEMPLATES):
        (folder / f"t{number}.txt").write_text(text)
        path = folder / f"template{number}.yaml"
        stage = f"choose: {{use: prompting.wording.Template, text: {{file: t{number}.txt}}}}"
        path.write_text(base.replace("choose: {use: prompting.wording.MultipleChoice}", stage))
        commands.append(["run", path, "--out", folder / "templates"])
    ends = looktwice_each(commands, url)
    for text, ended in zip(TEMPLATES, ends, strict=True):
        wrong = faults(ended, {0, 1, 2}) + (["slow"] if ended.seconds > 10 else [])
        if wrong:
            yield finding("templates", text[:60], "", wrong, ended)
    figure = (
        f"{sum(ended.code != 0 for ended in ends)} refused, the slowest in"
        f" {max(e.seconds for e in ends):.1f} s"
    )
    yield finding("templates", f"{len(ends)} hostile templates", figure, [])
