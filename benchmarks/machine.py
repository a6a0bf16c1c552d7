"""What a table must say about where it was made."""


def heading() -> str:
    """Date, commit, hardware and versions, in one line."""
    from limitlaw.experiments import Provenance  # here, so that a script can measure how long an import takes

    made = Provenance.here()
    versions = f"Python {made.versions['Python']}, jax {made.versions['jax']}"
    return f"{made.date.split()[0]}, commit {made.commit}, {made.hardware}, {versions}"
