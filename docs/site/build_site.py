"""Builds the site from README and docs/: `python docs/site/build_site.py OUT [REPORT.html]`.

The pages are GitHub's Markdown and stay so. Here long ones are cut at their headings, links follow,
the gallery becomes cards, and Sphinx makes HTML that opens from disk, with search and no network.
A report that is given is published as an example. `llms.txt` lists all pages as Markdown.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
HOW_TO = (
    "homes",
    "changes",
    "contestants",
    "money",
    "data",
    "own",
    "extend",
    "python",
    "models",
    "serve",
    "mcp",
)
PARTS = ("study", "commands", "prompting", "specialists", "tasks", "readers", "models", "python")
NAVIGATION: Mapping[str, tuple[str, ...]] = {
    "Start": ("README.md", "docs/guide.md", "docs/studio.md", "docs/pocket.md"),
    "Examples": tuple(f"docs/examples/{name}.md" for name in ("markers", "specialists", "agent")),
    "Gallery": ("docs/gallery.md", "docs/controls.md"),
    "How to": (
        *(f"docs/howto/{name}.md" for name in HOW_TO),
        *(f"docs/{name}.md" for name in ("agents", "looking", "seen", "specialists", "trust")),
    ),
    "Results": tuple(f"docs/{name}.md" for name in ("report", "compare", "annotate", "statistics")),
    "Papers": ("docs/papers.md",),
    "Advanced": tuple(
        f"docs/{name}.md"
        for name in (
            "mattered",
            "thresholds",
            "probes",
            "scale",
            "dysm",
            "map",
            "upstream",
            "fragility",
            "discover",
        )
    ),
    "Reference": ("docs/reference.md", *(f"docs/reference/{part}.md" for part in PARTS)),
    "The project": ("CONTRIBUTING.md", "findings/README.md", "CHANGELOG.md"),
}
"""Every page by its path in the repository, as the site lists them."""
NAMES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "findings/README.md": "findings.md",
    "CHANGELOG.md": "changes.md",
}
CUT = {
    "docs/gallery.md": 2,
    "docs/controls.md": 2,
    "docs/dysm.md": 2,
    "docs/specialists.md": 2,
    "docs/looking.md": 2,
    "docs/reference/python.md": 3,
    **{f"docs/reference/{part}.md": 3 for part in ("prompting", "specialists", "tasks")},
}
"""Pages that are cut, and down to headings of which level."""
CARDED = ("gallery/", "controls/")
"""Pages whose entries become cards."""
LISTED = "docs/reference.md"  # whose lists of classes stand on the pages of rooms, too
EXAMPLE = '<a href="example.html">The whole report of the demo</a>, as its run wrote it.'
LINK = re.compile(r"(?<!`)\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)")
FENCE = re.compile(r"^```(\w+) (\S+)$", re.MULTILINE)
CARD = re.compile(r"^\*\*(.+?)\.\*\* (.*?)(?=^\*\*|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Page:
    """A page of the site: its name there, the file that its links count from, and its Markdown,
    whose title is a heading of the first level."""

    name: str
    source: str
    text: str
    children: tuple[str, ...] = ()
    is_listed: bool = True

    @property
    def title(self) -> str:
        """Its heading."""
        return self.text.partition("\n")[0].removeprefix("# ")

    @property
    def opening(self) -> str:
        """Its first paragraph, empty where it opens with anything else."""
        paragraph = self.text.split("\n\n")[1] if "\n\n" in self.text else ""
        is_prose = re.match(r"[^#|!:<>\-\s]|\*\*", paragraph.partition("\n")[0][:2])
        return " ".join(paragraph.split()) if is_prose else ""


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def headings(text: str) -> Iterator[tuple[int, int, str]]:
    """The line, level and words of each heading that is not within a fence."""
    fenced = False
    for number, line in enumerate(text.splitlines()):
        fenced ^= line.startswith("```")
        if not fenced and (match := re.match(r"(#+) (.*)", line)):
            yield number, len(match[1]), match[2]


def pages() -> list[Page]:
    """All pages, long ones cut; links still lead to files of the repository."""
    return [page for sources in NAVIGATION.values() for path in sources for page in _pages(path)]


def _pages(source: str) -> Iterator[Page]:
    name = NAMES.get(source, source.removeprefix("docs/"))
    text = (ROOT / source).read_text(encoding="utf-8")
    if source == LISTED:
        text = text.partition("\n## ")[0] + "\n"
    yield from _cut(Page(name, source, text), 2, CUT.get(source, 1), name.removesuffix(".md"))


def _cut(page: Page, level: int, deepest: int, folder: str) -> Iterator[Page]:
    """The page, and one for each of its headings down to a level."""
    lines = page.text.splitlines(keepends=True)
    starts = [number for number, depth, _ in headings(page.text) if depth == 2]
    if level > deepest or not starts:
        yield page
        return
    parts: list[Page] = []
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        title = lines[start].removeprefix("## ").strip()
        raised = "".join(_raised(lines[start:end]))
        parts.append(Page(f"{folder}/{slug(title)}.md", page.source, raised))
    listed = "".join(f"- [{part.title}]({_site(part.name)})\n" for part in parts)
    text = f"{''.join(lines[: starts[0]])}\n{listed}"
    # Navigation lists rooms; a class is reached from its room and by search, and leads back.
    yield Page(page.name, page.source, text, tuple(part.name for part in parts) * (level == 2))
    if level > 2:
        back = f"One of [{page.title}]({_site(page.name)}).\n"
        parts = [replace(part, text=_with_back(part, back), is_listed=False) for part in parts]
    for part in parts:
        yield from _cut(part, level + 1, deepest, folder)


def _with_back(part: Page, back: str) -> str:
    """The Markdown of a part with the way back: at its end, or as the opening of a bare list."""
    if part.opening:
        return f"{part.text}\n{back}"
    title, _, body = part.text.partition("\n")
    return f"{title}\n\n{back}{body}"


def _raised(lines: list[str]) -> Iterator[str]:
    """Lines whose headings are one level higher."""
    fenced = False
    for line in lines:
        fenced ^= line.startswith("```")
        yield line[1:] if line.startswith("##") and not fenced else line


def _site(name: str) -> str:
    """A link to a page of the site, which is followed as it stands."""
    return f"site:{name}"


def places(site: list[Page]) -> dict[tuple[str, str], str]:
    """Where each heading of each file stands in the site."""
    homes: dict[tuple[str, str], str] = {}
    for page in site:
        homes.setdefault((page.source, ""), page.name)
        for number, _, words in headings(page.text):
            anchor = slug(words)
            homes.setdefault(
                (page.source, anchor), f"{page.name}#{anchor}" * bool(number) or page.name
            )
    return homes


def linked(page: Page, homes: Mapping[tuple[str, str], str], files: set[str]) -> str:
    """The text of a page with links that lead through the site; `files` takes what else it needs,
    by paths of the repository. Raises LookupError for a link that leads nowhere."""
    here = posixpath.dirname(page.name)

    def follow(match: re.Match[str]) -> str:
        path, anchor = match[1], match[2]
        if path.startswith("site:"):
            return f"]({posixpath.relpath(path.removeprefix('site:'), here or '.')})"
        source = posixpath.normpath(posixpath.join(posixpath.dirname(page.source), path))
        source = source if path else page.source
        if source.endswith(".md"):
            target = homes.get((source, anchor))
            if target is None:
                raise LookupError(f"{page.source}: no page for {path}#{anchor}")
        else:
            files.add(source)
            target = f"files/{source.removeprefix('docs/')}"
        return f"]({posixpath.relpath(target, here or '.')})"

    return LINK.sub(follow, page.text)


def cards(text: str) -> str:
    """A page of the gallery with a card for each entry, three side by side."""

    def card(match: re.Match[str]) -> str:
        says, _, rest = match[2].partition("\n")
        return f":::{{grid-item-card}} {match[1]}\n{says}\n{rest.rstrip()}\n:::\n\n"

    first = CARD.search(text)
    if first is None:
        return text
    grid = CARD.sub(card, text[first.start() :])
    return f"{text[: first.start()]}::::{{grid}} 1 2 2 3\n:gutter: 2\n\n{grid}::::\n"


FILTER = """
<p><label>filter: <input id="filter" type="search" placeholder="words, or a class"></label> <span id="filtered" role="status"></span></p>
"""  # what site.js listens to


def overview(site: list[Page]) -> str:
    """A small card for every entry of the gallery, which is filtered by words and by class."""
    shown = []
    for page in (page for page in site if page.name.startswith(CARDED)):
        for entry in CARD.finditer(page.text):
            says, _, rest = entry[2].partition("\n")
            picture = re.search(r"!\[.*?\]\(((?:gallery|controls)/\S+)\)", rest)
            classes = dict.fromkeys(re.findall(r"use: (?:\w+\.)*(\w+)", rest))
            image = f":img-top: files/{picture[1]}\n:img-alt: {entry[1]}\n" if picture else ""
            link = f":link: {page.name.removesuffix('.md')}\n:link-type: doc\n"
            sentence = f"{says}\n\n`{', '.join(classes)}`" if classes else says
            shown.append(f":::{{grid-item-card}} {entry[1]}\n{image}{link}\n{sentence}\n:::\n\n")
    return f"{FILTER}\n::::{{grid}} 2 3 3 4\n:gutter: 2\n\n{''.join(shown)}::::\n"


def tree(names: tuple[str, ...], here: str, caption: str = "") -> str:
    """A hidden table of contents."""
    folder = posixpath.dirname(here) or "."
    links = [posixpath.relpath(name, folder) for name in names]
    lines = "".join("What it is <self>\n" if link == here else f"{link}\n" for link in links)
    return f"\n```{{toctree}}\n:hidden:\n{f':caption: {caption}' * bool(caption)}\n\n{lines}```\n"


def write_sources(folder: Path, report: Path | None = None) -> None:
    """Writes the pages for Sphinx, what they show, `llms.txt`, and a report as an example."""
    site, files = pages(), set[str]()
    homes = places(site)
    for page in site:
        text = linked(page, homes, files)
        text = cards(text) if page.name.startswith(CARDED) else text
        text += overview(site) if page.name == "gallery.md" else ""
        text = FENCE.sub(r"```{code-block} \1\n:caption: \2\n", text)
        text += tree(page.children, page.name) if page.children else ""
        if report and page.name in ("index.md", "report.md"):
            head, _, rest = text.partition("\n## ")
            text = f"{head}\n{EXAMPLE}\n\n## {rest}"
        if page.name == "index.md":
            for caption, sources in NAVIGATION.items():
                text += tree(tuple(homes[source, ""] for source in sources), "index.md", caption)
        text = text if page.is_listed else f"---\norphan: true\n---\n\n{text}"
        _put(folder / page.name, text.encode())
    for source in files:
        _put(folder / "files" / source.removeprefix("docs/"), (ROOT / source).read_bytes())
    for name in ("site.css", "site.js"):
        _put(folder / "_static" / name, (HERE / name).read_bytes())
    _put(folder / "_extra/llms.txt", index_of(site, homes).encode())
    if report:
        _put(folder / "_extra/example.html", report.read_bytes())


def index_of(site: list[Page], homes: Mapping[tuple[str, str], str]) -> str:
    """`llms.txt`: every page of the navigation as Markdown, with its first sentence."""
    by_name = {page.name: page for page in site}
    lines = ["# looktwice", "", f"> {by_name['index.md'].opening}"]
    for caption, sources in NAVIGATION.items():
        lines += ["", f"## {caption}", ""]
        for page in (by_name[homes[source, ""]] for source in sources):
            sentence = re.split(r"(?<=[.!?]) ", page.opening)[0]
            lines.append(f"- [{page.title}](_sources/{page.name}.txt): {sentence}")
    return "\n".join((*lines, ""))


def _put(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def build(out: Path, report: Path | None = None) -> None:
    """The whole site in `out`, whose sources are left beside it. Raises CalledProcessError where
    Sphinx warns."""
    sources = out.with_name(f"{out.name}-sources")
    shutil.rmtree(sources, ignore_errors=True)
    shutil.rmtree(out, ignore_errors=True)
    write_sources(sources, report)
    options = ["-W", "--keep-going", "-q", "-c", str(sources), "-b", "html"]
    shutil.copy(HERE / "conf.py", sources / "conf.py")
    subprocess.run([sys.executable, "-m", "sphinx", *options, str(sources), str(out)], check=True)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("python docs/site/build_site.py OUT [REPORT.html]")
    build(*map(Path, sys.argv[1:]))
