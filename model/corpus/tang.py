"""The 4,003 Tang poems that the studies train on, from a cache, from npm or over HTTPS; always the same text.

They are the files ``poet.tang.0/1000/2000/3000.json`` of the public collection chinese-poetry (MIT licence,
https://github.com/chinese-poetry/chinese-poetry), folder ``全唐诗``: 18,857 lines in traditional characters.
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

FILES = ("poet.tang.0.json", "poet.tang.1000.json", "poet.tang.2000.json", "poet.tang.3000.json")
COMMIT = "99ebbef7e1345c0985c44b9fd96a3f9e776f117b"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Edition:
    """What the poems joined by newlines must be, whatever the source."""

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


TANG = Edition(4003, 256_616, "bca5758d4704f10fbb1ec9a642256b524666e1a8579db62fd05b3062b9caac63")


class Source(Protocol):
    """A place that has the files; ``read`` returns their bytes in the order of FILES or raises CorpusError."""

    @property
    def name(self) -> str: ...

    def read(self) -> list[bytes]: ...


@dataclass(frozen=True)
class Npm:
    """The npm package, an archive of 85 MB of which only the four files are read."""

    package: str = "chinese-poetry@2.0.1"
    timeout: float = 600.0  # seconds for the whole download

    @property
    def name(self) -> str:
        return f"npm package {self.package}"

    def read(self) -> list[bytes]:
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
            return read_archive(archive)


@dataclass(frozen=True)
class Https:
    """The same files, byte for byte, at the fixed commit of the public repository that the npm package matches."""

    base_url: str = f"https://raw.githubusercontent.com/chinese-poetry/chinese-poetry/{COMMIT}/全唐诗"
    timeout: float = 30.0  # seconds without an answer

    @property
    def name(self) -> str:
        return self.base_url

    def read(self) -> list[bytes]:
        return [self._read(file) for file in FILES]

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


def documents() -> list[str]:
    """The poems in the collection's order, each its lines joined by newlines.

    Raises CorpusError when no source has them, with the reason of each.
    """
    return load(cache_file(), SOURCES, TANG)


def cache_file() -> Path:
    """Where the poems are kept between runs: ``$XDG_CACHE_HOME/seedbed/tang.txt``, by default under ``~/.cache``."""
    return cache_folder() / "tang.txt"


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
        log.info("Fetching the Tang poems from %s", source.name)
        try:
            poems = parse(source.read())
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


def read_archive(path: Path) -> list[bytes]:
    """The four files out of the package's archive, read as a stream that stops at the last of them.

    Raises CorpusError when the archive is damaged or ends before all four were found.
    """
    found: dict[str, bytes] = {}
    wanted = {f"package/dist/quantangshi/{file}": file for file in FILES}
    try:
        with tarfile.open(path, "r|gz") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.name in wanted else None
                if content is not None:
                    found[wanted[member.name]] = content.read()
                if len(found) == len(FILES):
                    break
    except (tarfile.TarError, OSError) as error:
        raise CorpusError(f"the archive is damaged or was cut ({error})") from None
    missing = [file for file in FILES if file not in found]
    if missing:
        raise CorpusError(f"the archive has no {', '.join(missing)}")
    return [found[file] for file in FILES]


def parse(files: Sequence[bytes]) -> list[str]:
    """The poems of the collection's JSON files, in order; raises CorpusError naming the file that has another form."""
    poems = []
    for file, content in zip(FILES, files, strict=True):
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
