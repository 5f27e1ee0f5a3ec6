"""From an empty machine to the published tables: what to download and run."""
