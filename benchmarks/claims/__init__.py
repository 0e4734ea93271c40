"""Numbers that the source chapter prints, each beside what comes out when it is computed."""
