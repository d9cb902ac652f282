"""What specialists see, told in words in place of pictures: regions, depth, matches, similarity.

Not here: the same drawn (`markers`), and the words of the question (`wording`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
