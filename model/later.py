"""Fields that came to a recipe after runs had been recorded."""

# Metadata of a dataclass field: at its default the field is no part of a run's identity, so that runs recorded before
# there was such a field keep theirs.
LATER = {"later": True}
