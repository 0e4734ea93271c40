"""The Tang poems that the studies train on, from a cache, from npm or over HTTPS; always the same text.

They are files of the public collection chinese-poetry (MIT licence, https://github.com/chinese-poetry/chinese-poetry),
folder ``全唐诗``, in traditional characters: ``poet.tang.0/1000/2000/3000.json`` for the usual 4,003 poems of 18,857
lines, all 58 files ``poet.tang.*.json`` for the whole collection of 57,607, a text fifteen times as long.
"""

import hashlib
import http.client
import json
import logging
import shutil
import subprocess
import tarfile
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from model.corpus.text import CorpusError, text_sha256
from model.hardware import cache_folder

ALL_FILES = tuple(f"poet.tang.{first}.json" for first in range(0, 58_000, 1000))
COMMIT = "99ebbef7e1345c0985c44b9fd96a3f9e776f117b"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Edition:
    """What the poems of `files` joined by newlines must be, whatever the source; `name` is that of the corpus too."""

    name: str
    files: tuple[str, ...]
    poems: int
    characters: int
    sha256: str

    def check(self, poems: Sequence[str]) -> None:
        """Raise CorpusError, saying what differs, unless ``poems`` are this edition."""
        text = "\n".join(poems)
        sha256 = text_sha256(text)
        if (len(poems), len(text), sha256) != (self.poems, self.characters, self.sha256):
            raise CorpusError(
                f"the text is not the expected one: {len(poems):,} poems, {len(text):,} characters, "
                f"SHA-256 {sha256[:12]}... instead of {self.poems:,}, {self.characters:,}, {self.sha256[:12]}..."
            )


TANG = Edition("tang", ALL_FILES[:4], 4003, 256_616, "bca5758d4704f10fbb1ec9a642256b524666e1a8579db62fd05b3062b9caac63")
TANG_ALL = Edition(
    "tang-all", ALL_FILES, 57_607, 3_936_368, "a47d3efa21da761a942613a5b26d39c8ebbe145abfb243021aa69a50cf694c99"
)


class Source(Protocol):
    """A place that has the files; ``read`` returns the bytes of each of ``files`` or raises CorpusError."""

    @property
    def name(self) -> str: ...

    def read(self, files: Sequence[str]) -> list[bytes]: ...


@dataclass(frozen=True)
class Npm:
    """The npm package, an archive of 85 MB of which only the wanted files are read."""

    package: str = "chinese-poetry@2.0.1"
    timeout: float = 600.0  # seconds for the whole download

    @property
    def name(self) -> str:
        return f"npm package {self.package}"

    def read(self, files: Sequence[str]) -> list[bytes]:
        npm = shutil.which("npm")
        if npm is None:
            raise CorpusError("npm is not installed")
        with tempfile.TemporaryDirectory(prefix="seedbed-") as folder:
            # Not --silent: it would hide the reason of a failure too.
            command = [npm, "pack", self.package, "--loglevel=error", "--fetch-retries=1", "--no-update-notifier"]
            try:
                done = subprocess.run(
                    command,
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    encoding="utf-8",
                    errors="replace",
                    timeout=self.timeout,
                )
            except subprocess.TimeoutExpired:
                raise CorpusError(f"npm pack took longer than {self.timeout:g} seconds") from None
            archive = next(Path(folder).glob("*.tgz"), None)
            if done.returncode != 0 or archive is None:
                reason = "; ".join(done.stderr.splitlines()[:2]) or "no reason given"  # the rest points to its log
                raise CorpusError(f"npm pack failed with exit code {done.returncode}: {reason}")
            return read_archive(archive, files)


@dataclass(frozen=True)
class Https:
    """The same files, byte for byte, at the fixed commit of the public repository that the npm package matches."""

    base_url: str = f"https://raw.githubusercontent.com/chinese-poetry/chinese-poetry/{COMMIT}/全唐诗"
    timeout: float = 30.0  # seconds without an answer

    @property
    def name(self) -> str:
        return self.base_url

    def read(self, files: Sequence[str]) -> list[bytes]:
        return [self._read(file) for file in files]

    def _read(self, file: str) -> bytes:
        url = urllib.parse.quote(f"{self.base_url}/{file}", safe=":/")
        try:
            with urllib.request.urlopen(url, timeout=self.timeout) as response:
                return response.read()
        except http.client.IncompleteRead as error:
            got, rest = len(error.partial), error.expected
            of = f" of {got + rest:,}" if rest is not None else ""
            raise CorpusError(f"the download of {file} was cut after {got:,}{of} bytes") from None
        except (OSError, http.client.HTTPException) as error:
            raise CorpusError(f"{file} could not be downloaded ({error})") from None


SOURCES: tuple[Source, ...] = (Npm(), Https())


def documents(edition: Edition = TANG) -> list[str]:
    """The poems in the collection's order, each its lines joined by newlines.

    Raises CorpusError when no source has them, with the reason of each.
    """
    return load(cache_file(edition), SOURCES, edition)


def cache_file(edition: Edition = TANG) -> Path:
    """Where the poems are kept between runs: ``$XDG_CACHE_HOME/seedbed/tang.txt``, by default under ``~/.cache``, and
    those of another edition beside it under its name."""
    return cache_folder() / f"{edition.name}.txt"


def load(cache: Path, sources: Sequence[Source], edition: Edition) -> list[str]:
    """The poems of ``edition`` from ``cache``, else from the first source that has them, which then fills the cache.

    The cache is a text with a blank line between poems. A damaged one is replaced and one that cannot be written is
    done without; both are logged as warnings. Raises CorpusError when every source fails.
    """
    if cache.exists():
        try:
            poems = cache.read_bytes().decode("utf-8").split("\n\n")
            edition.check(poems)
            return poems
        except (OSError, ValueError) as error:
            log.warning("The cached poems in %s cannot be used and are fetched again: %s", cache, error)
    reasons = []
    for source in sources:
        log.info("Fetching %s Tang poems from %s", f"{edition.poems:,}", source.name)
        try:
            poems = parse(edition.files, source.read(edition.files))
            edition.check(poems)
        except CorpusError as error:
            reasons.append(f"{source.name}: {error}")
            continue
        _write(cache, "\n\n".join(poems))
        return poems
    raise CorpusError(
        "The Tang poems could not be fetched. " + ". ".join(reasons) + ". "
        "Mend one of these, or train on a text of your own with --corpus FILE."
    )


def read_archive(path: Path, files: Sequence[str]) -> list[bytes]:
    """``files`` out of the package's archive, read as a stream that stops at the last of them.

    Raises CorpusError when the archive is damaged or ends before all were found.
    """
    found: dict[str, bytes] = {}
    wanted = {f"package/dist/quantangshi/{file}": file for file in files}
    try:
        with tarfile.open(path, "r|gz") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.name in wanted else None
                if content is not None:
                    found[wanted[member.name]] = content.read()
                if len(found) == len(files):
                    break
    except (tarfile.TarError, OSError) as error:
        raise CorpusError(f"the archive is damaged or was cut ({error})") from None
    missing = [file for file in files if file not in found]
    if missing:
        raise CorpusError(f"the archive has no {', '.join(missing)}")
    return [found[file] for file in files]


def parse(files: Sequence[str], contents: Sequence[bytes]) -> list[str]:
    """The poems of the collection's JSON files, in order; raises CorpusError naming the file that has another form."""
    poems = []
    for file, content in zip(files, contents, strict=True):
        try:
            poems += ["\n".join(poem["paragraphs"]) for poem in json.loads(content)]
        except (ValueError, TypeError, KeyError):
            digest = hashlib.sha256(content).hexdigest()[:12]
            raise CorpusError(
                f"{file} is not a list of poems in JSON ({len(content):,} bytes, SHA-256 {digest}...)"
            ) from None
    return poems


def _write(cache: Path, text: str) -> None:
    """Replace ``cache`` whole: another process sees the old file or the new one, never a part."""
    part: Path | None = None
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=cache.parent, prefix=cache.name, delete=False) as file:
            part = Path(file.name)
            file.write(text.encode("utf-8"))
        part.replace(cache)
    except OSError as error:
        if part is not None:
            part.unlink(missing_ok=True)
        log.warning("The poems could not be kept in %s and will be fetched again next time: %s", cache, error)
