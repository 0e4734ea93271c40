"""The study as a value, its plan, its launch on Ray Tune and its lineage in MLflow."""
