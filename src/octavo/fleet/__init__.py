"""One run on many hosts, on Dask distributed: rounds are handed out here, measured there, and looked at here."""
