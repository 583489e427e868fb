"""What MkDocs needs to render the pages as GitHub does."""

import os
import posixpath
import re

TREE = "https://github.com/padlock-go/padlock/blob/main/"


def slug(text, separator):
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w -]", "", text.strip().lower()).replace(" ", separator)


def on_config(config):
    config["mdx_configs"]["toc"] = {"slugify": slug}
    return config


def on_page_markdown(markdown, page, config, files):
    """Links to files of the tree that are no pages lead to GitHub."""

    def lead(match):
        target = match[1].partition("#")[0]
        if not target or "://" in target or target.startswith("mailto:"):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_path), target))
        if os.path.isfile(os.path.join(config["docs_dir"], path)):
            return match[0]
        return "](" + TREE + path + ")"

    return re.sub(r"\]\(([^)\s]+)\)", lead, markdown)
