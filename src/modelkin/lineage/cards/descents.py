"""Sentences that say what a model was fine-tuned from: those that name it directly, and no others.

Cards are written by strangers, and a parent that is misread can be contradicted. So a sentence counts only if
it speaks of the model of the card and the name follows at once, as in the sentence that trainers write into
every card: "This model is a fine-tuned version of [org/name](https://huggingface.co/org/name) on …".
"""

from __future__ import annotations

import re
from collections.abc import Collection

from .beginnings import is_about_others, is_name_of
from .prose import sentences, title, words_of

_MOST = 4
"""Parents that are taken from a text: a model has one, or one for each stage of its training."""
_NAME = r"[A-Za-z0-9][\w.-]{0,95}"
_HUB_ID = re.compile(rf"{_NAME}/{_NAME}")
_PAGES = words_of(
    "datasets spaces models docs blog papers collections tasks organizations join settings api learn "
    "posts chat login pricing enterprise"
)
"""First parts of addresses on the Hub that are not owners of models."""
_TARGET = (
    rf"(?:\[(?P<words>[^\[\]\n]{{1,200}})\]\(https://(?:huggingface\.co|hf\.co)/(?P<page>{_NAME}(?:/{_NAME})?)/?\)"
    rf"|`?(?P<name>{_NAME}/[A-Za-z0-9](?:[\w.-]{{0,94}}\w)?)`?)"
    r"(?=\s*(?:$|[.,;:(](?!\w)|(?:for|on|with|to|using|by|in|and|at|over|via|model)\b))"
)
_TUNED = r"fine-?tun(?:ed|e)"
_MARK = r"[*_]{0,2}"
_STATED = re.compile(
    rf"^{_MARK}(?:"
    rf"(?P<subject>[^,;:()\n]{{1,120}}?){_MARK}\s+(?:"
    rf"(?:is|was)\s+(?:an?|the)\s+(?:[\w-]+\s+){{0,3}}?{_TUNED}\s+(?:version|variant|checkpoint)\s+of"
    rf"|(?:is|was|has\s+been)\s+(?:[\w-]+\s+){{0,2}}?{_TUNED}\s+from)"
    rf"|(?:An?\s+)?{_TUNED}\s+(?:version|variant|checkpoint)\s+of"
    rf"|(?:(?:We|I)\s+(?:have\s+)?)?{_TUNED}(?:\s+from)?(?:\s+model)?(?:\s+\\?\[optional\\?\])?\s?:?{_MARK}:?"
    rf")\s+(?:the\s+)?{_MARK}{_TARGET}",
    re.IGNORECASE,
)
_THIS = re.compile(
    r"(?:this|the|our)(?:\s+(?:fine-?tuned|resulting|final|released|present|new|language|[\d.]+[bmk]))*"
    r"\s+(?:model|checkpoint|llm|version|release)|it|this",
    re.IGNORECASE,
)


def is_hub_id(name: str) -> bool:
    """Say whether a name can be a model on the Hub: nothing else that a card names is opened."""
    return _HUB_ID.fullmatch(name) is not None and ".." not in name


def fine_tuned_from(text: str, own: Collection[str] = ()) -> tuple[str, ...]:
    """Return the models that a text says the model was fine-tuned from.

    Parameters
    ----------
    text
        Of the card, without its front matter.
    own
        What the model is called, besides the title of the card.
    """
    named = (*own, title(text))
    found: list[str] = []
    for sentence in sentences(text):
        stated = _STATED.match(sentence.text)
        if stated is None or is_about_others(sentence):
            continue
        subject = stated["subject"]
        if subject is not None and not _THIS.fullmatch(subject) and not is_name_of(subject, named):
            continue
        if subject is not None and subject.lower() == "it" and sentence.before:
            continue  # what was spoken of before may be another model
        name = _name(stated)
        if name is not None and name not in found:
            found.append(name)
    return tuple(found[:_MOST])


def _name(stated: re.Match[str]) -> str | None:
    """Return the model that is named; None if words and address of a link name different ones."""
    words, page, name = stated["words"], stated["page"], stated["name"]
    if name is not None:
        return name if is_hub_id(name) else None
    words = words.strip("`*_ ")
    if ".." in page or page.partition("/")[0].lower() in _PAGES:
        return None
    return None if _HUB_ID.fullmatch(words) and words != page else page
