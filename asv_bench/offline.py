"""Make a published asv site work without the internet: ``python offline.py [FOLDER]``.

asv's page loads its scripts and style sheets from public servers. This puts copies beside it, in
``vendor/``, and makes the page use them. Each file comes from the address that the page names, if
it can be reached and its checksum is right, else from the npm registry (by ``npm pack``).
"""

import base64
import hashlib
import re
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

# Where npm packages hold the files that asv's page asks cdnjs and jquery.com for.
NPM = {
    "jquery-3.3.1.min.js": ("jquery@3.3.1", "dist/jquery.min.js"),
    "jquery.flot.min.js": ("flot@0.8.3", "jquery.flot.js"),
    "jquery.flot.time.min.js": ("flot@0.8.3", "jquery.flot.time.js"),
    "jquery.flot.selection.min.js": ("flot@0.8.3", "jquery.flot.selection.js"),
    "jquery.flot.categories.min.js": ("flot@0.8.3", "jquery.flot.categories.js"),
    "stupidtable.min.js": ("stupid-table-plugin@1.1.3", "stupidtable.min.js"),
    "md5.min.js": ("blueimp-md5@2.19.0", "js/md5.min.js"),
}
TAG = re.compile(r"<(?:script|link)\b[^>]*?\b(?:src|href)=\"(https://[^\"]+)\"[^>]*>")


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".asv/html")
    page = folder / "index.html"
    text = page.read_text(encoding="utf-8")
    (folder / "vendor").mkdir(exist_ok=True)

    def local(found):
        tag, address = found[0], found[1]
        name = address.rsplit("/", 1)[1]
        checksum = re.search(r'integrity="([^"]+)"', tag)
        content = download(address, checksum[1] if checksum else "") or from_npm(address, name)
        (folder / "vendor" / name).write_bytes(content)
        print(f"vendor/{name}: {len(content)} bytes")
        tag = re.sub(r'\s(integrity|crossorigin|referrerpolicy)="[^"]*"', "", tag)
        return tag.replace(address, f"vendor/{name}")

    page.write_text(TAG.sub(local, text), encoding="utf-8")


def download(address, checksum):
    """The file at an address; None if it cannot be had or is another than the page expects."""
    try:
        with urllib.request.urlopen(address, timeout=10) as reply:
            content = reply.read()
    except (urllib.error.URLError, OSError):
        return None
    kind, _, value = checksum.partition("-")
    if value and base64.b64encode(hashlib.new(kind, content).digest()).decode() != value:
        return None
    return content


def from_npm(address, name):
    """The same file out of an npm package."""
    known = re.fullmatch(r"https://cdn\.jsdelivr\.net/npm/([^/]+)/(.+)", address)
    if known is None and name not in NPM:
        sys.exit(f"{address} cannot be reached, and no npm package is known for it")
    package, path = known.groups() if known else NPM[name]
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(
            ["npm", "pack", "--silent", package],
            cwd=folder, check=True, capture_output=True, text=True,
        )  # fmt: skip
        with tarfile.open(Path(folder) / packed.stdout.split()[-1]) as archive:
            return archive.extractfile(f"package/{path}").read()


if __name__ == "__main__":
    main()
