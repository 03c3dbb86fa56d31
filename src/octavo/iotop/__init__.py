"""`octavo iotop`: live I/O by process, device and request size: sources, process roles, snapshot, view."""
