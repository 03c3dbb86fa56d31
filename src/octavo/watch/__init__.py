"""`octavo watch`: the instruments live, for any running server."""
