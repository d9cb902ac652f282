"""Readers: stages that find the answer in a reply, or the reason why there is none, for scoring.

`robust` reads free words by our own rules, and says in which file a rule of each kind goes.
`toolkits` reads replies in an agreed form, and as the code of benchmarks and toolkits does.
`reader` is what all of them have in common. To add a reader, write a subclass of `reader.Reader`
and name it in `__init__.pyi`. Not here: whether an answer is right (`scoring`), models that judge
replies (`judging`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
