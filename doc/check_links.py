"""Every link of the built pages that stays within the site leads to a page, and an anchor, there.

Usage::

    python doc/check_links.py doc/_build/html
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """Links and anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors.update(attrs[key] for key in ("id", "name") if attrs.get(key))
        for key in ("href", "src"):
            if attrs.get(key):
                self.links.append(attrs[key])


def broken_links(root):
    """Yield (page, link) of each link within the site that leads nowhere."""
    made = (path for path in sorted(root.rglob("*.html")) if "_static" not in path.parts)
    pages = {path.resolve(): Page(path) for path in made}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if target in pages:
                found = not anchor or anchor in pages[target].anchors
            else:
                found = target.is_file()
            if not found:
                yield path.relative_to(root.resolve()), link


if __name__ == "__main__":
    broken = list(broken_links(Path(sys.argv[1])))
    for page, link in broken:
        print(f"{page}: {link}")
    print(f"{len(broken)} broken links within the site")
    sys.exit(bool(broken))
