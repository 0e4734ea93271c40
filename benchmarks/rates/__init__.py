"""Error rates by simulation, of this project's procedures and of what people use today; `calibration.py` runs them."""
