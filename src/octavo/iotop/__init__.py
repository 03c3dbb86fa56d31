"""`octavo iotop`: who asks which device for how much in what sizes, live: sources, who is who, snapshot, view."""
