"""The words with which a snapshot says how a study came to its runs."""

JUDGE, TUNE = "judge", "tune"  # stages of a run: it counts for a verdict, or it served to select a point of a grid
FIXED = "fixed"  # a number of seeds that was chosen before any run
UNTIL_DECIDED = "until_decided"  # looks declared beforehand, with a most number of seeds
OPEN = "open"  # seeds were added after a verdict had been seen
