"""Killing Octavo, and taking its disks away, at random moments; what is then lost, left behind, and resumed."""
