"""Kills Octavo and fails its disks at random moments; records what is then lost, left behind, and resumed."""
