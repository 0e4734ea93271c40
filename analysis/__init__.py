"""From recorded runs to a verdict and a report; knows nothing of how the runs were made."""
