"""Private to `prompting`: colours, anti-aliased shapes, text, masks, and where labels stand.

Not here: stages. What a user names in YAML lies in the other rooms."""

__all__: list[str] = []
