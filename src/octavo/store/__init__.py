"""The store: runs, cells, trials and observations, each trial committed whole when it ends."""
